package events

// check returns an error for a malformed answer.
func check(msgType uint64, payload []byte) error {
	if msgType == TypeErr {
		return new(Err).Decode(payload)
	}
	return checkBatch(payload)
}

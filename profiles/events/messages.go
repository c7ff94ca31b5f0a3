package events

// check says whether an answer is well formed.
func check(msgType uint64, payload []byte) error {
	if msgType == TypeErr {
		return new(Err).Decode(payload)
	}
	return checkBatch(payload)
}

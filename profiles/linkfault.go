package profiles

// Details of the errors of LinkFault.
const (
	DetailLinkDown   = "partner_down"   // the message was not sent
	DetailLinkLost   = "partner_lost"   // the link was lost before the answer
	DetailLinkSilent = "partner_silent" // the partner has not answered in time
)

// LinkFault returns the *Error for a message that the link to a partner has failed: the link
// is down or was lost, or the partner is silent. It decides the code in every profile. If
// the message may be sent again, because it was not sent or because a second one does no
// harm, the error is retryable and its code RateLimitExceeded, by which profiles without a
// field for it say so. Otherwise it is Internal, because it is not known whether the message
// had an effect. The error is an ordinary answer, and no violation of the protocol.
func LinkFault(detail, text string, again bool, cause error) *Error {
	code := Internal
	if again {
		code = RateLimitExceeded
	}
	return &Error{Code: code, Detail: detail, Text: text, Cause: cause, Retryable: again, Domain: true}
}

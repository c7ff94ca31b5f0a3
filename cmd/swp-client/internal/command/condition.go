package command

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/slimwire/swp/cmd/internal/cli"
	"github.com/slimwire/swp/internal/plain"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/cred"
	"github.com/slimwire/swp/profiles/policyhint"
)

// condition returns the advice for a refusal because of the hints or the chain of
// credentials of this command, in the words of the endpoint that has refused. It is empty
// for any other refusal. Access rules are not the reason.
func (f *flags) condition(r *cli.Report) string {
	after := func(start string) (string, bool) {
		_, rest, found := strings.Cut(r.Message, start)
		return rest, found
	}
	if v := violation.FindStringSubmatch(r.Message); v != nil {
		return violated(r, v[1], v[2])
	}
	if why, found := after(profiles.ChainOfNoUse + ": "); found {
		return f.chainAdvice(r, why)
	}
	if why, found := after(policyhint.NotTaken + ": "); found {
		return nextHop(r, why, "policyhint set", "Repeat the command with hints that it knows, or without --policy.")
	}
	if why, found := after(cred.NotTaken + ": "); found {
		return nextHop(r, why, "cred present jwt", "Each token of the chain has to name the next endpoint in aud, and that endpoint has to know its issuer (cred.issuers there).")
	}
	if strings.Contains(r.Message, policyhint.MustNotTaken) {
		return "Send the hint with the mode SHOULD, or leave out --policy: it cannot be kept to there."
	}
	if strings.Contains(r.Message, profiles.ChainUnheld) {
		return "Leave out --chain: credentials cannot be used there."
	}
	return ""
}

// violation is how endpoints name a hint with mode MUST that has stopped an action.
var violation = regexp.MustCompile(regexp.QuoteMeta(profiles.Stopped) + `: MUST (\w+) for .*?: (` + policyhint.ReasonUndeclared + "|" + policyhint.ReasonUnsatisfied + ")")

// violated is the advice for a hint that has stopped an action.
func violated(r *cli.Report, key, reason string) string {
	item := policyhint.Item(key)
	if item == "" { // a newer endpoint knows more keys
		item = key
	}
	soft := fmt.Sprintf("To go on all the same, set %s with the mode SHOULD, or leave it out.", key)
	if reason == policyhint.ReasonUnsatisfied {
		return fmt.Sprintf("What would do this has declared another %s than the hint asks for. Ask for it elsewhere, or with another value. %s", item, soft)
	}
	return fmt.Sprintf("What would do this has not declared %[1]s. %[2]s can declare %[1]s in the hints of that server, worker, agent, back end or partner, and in endpoint.hints for all that swpd does itself. %[3]s",
		item, operator(r), soft)
}

// chainAdvice is the advice for a chain of credentials that an endpoint does not accept.
func (f *flags) chainAdvice(r *cli.Report, why string) string {
	addr, _, _ := split(f.address())
	present := f.commandLine("cred", "present", addr.String(), "FILE")
	switch {
	case r.Partner != "":
		return "It is the chain that the endpoint here has shown there. Present the credential to it again: " + present
	case strings.HasPrefix(why, profiles.ChainRevoked):
		return "A revoked chain stays revoked. Begin another one, and use its id with --chain: " + present
	case strings.HasPrefix(why, profiles.ChainExpired):
		return "Begin it again with a credential that is valid: " + present + " --id " + plain.Word(f.chain)
	}
	return fmt.Sprintf("This endpoint has to know the chain, and its last token has to be for %s. If this identity has begun it, present the credential again: %s --id %s. "+
		"If another one has, ask that one whether the chain has expired or is revoked, and whom its last token names.", f.identityFor(r), present, plain.Word(f.chain))
}

// nextHop is the advice for what the endpoint behind the one that answered has refused with
// a code or a reason.
func nextHop(r *cli.Report, why, may, otherwise string) string {
	if strings.HasPrefix(why, profiles.SecurityPolicy.Alias()) {
		return fmt.Sprintf("The rules of the next endpoint do not allow it. Its operator finds the reason with: swpd check --config FILE --as %s --may %s", plain.Word(visible(r.Endpoint)), may)
	}
	return otherwise
}

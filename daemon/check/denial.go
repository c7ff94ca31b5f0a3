package check

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/guard"
	"github.com/slimwire/swp/profiles"
)

// Denial is the content of a log line about a denial or a refusal.
type Denial struct {
	Time string `json:"ts,omitempty"`
	Question

	// Refused is the code with which a partner refused; empty for a denial of this
	// endpoint.
	Refused  string `json:"refused,omitempty"`
	Partner  string `json:"refused_by,omitempty"` // its name here
	Endpoint string `json:"endpoint,omitempty"`   // the endpoint that refused, according to the answer
	Told     string `json:"told,omitempty"`       // how the partner knows the caller, such as a pseudonym

	// Why is the reason that the line gives for a denial by something else than the rules.
	Why string `json:"why,omitempty"`

	// Kept says that the peer was not admitted at all.
	Kept bool `json:"not_let_in,omitempty"`

	// Handshake is why the certificate of the peer was refused, and Remedy what the line
	// says that an operator can do about it; both are empty for other lines.
	Handshake string `json:"handshake,omitempty"`
	Remedy    string `json:"-"` // Do of the Explanation

	// Cut says that the line contains only a part of a value, so that the request is not
	// known completely.
	Cut bool `json:"cut,omitempty"`
}

// ErrNoDenial is returned for a log line about something else.
var ErrNoDenial = errors.New("no line about a denial")

// Messages of the lines that ReadDenial understands.
const (
	msgDenied  = "denied"
	msgEvent   = "security event"
	msgRefused = "refused by partner"
)

// ReadDenial reads a log line, in JSON or as text. The error is ErrNoDenial for a complete
// line that is not about a denial.
func ReadDenial(line string) (*Denial, error) {
	head, object, ok := strings.Cut(line, "{")
	if !ok {
		return nil, ErrNoDenial
	}
	var in struct {
		TS        string `json:"ts"`
		Msg       string `json:"msg"`
		Reason    string `json:"reason"`
		Peer      string `json:"peer"`
		For       string `json:"for"`
		Profile   string `json:"profile"`
		Operation string `json:"operation"`
		Name      string `json:"name"`
		Partner   string `json:"partner"`
		Endpoint  string `json:"endpoint"`
		Told      string `json:"told"`
		Code      string `json:"err_code"`
		Error     string `json:"error"`
		Do        string `json:"do"`
		Why       string `json:"why"`
	}
	if err := json.Unmarshal([]byte("{"+object), &in); err != nil {
		return nil, fmt.Errorf("not a line of the log: %w", err)
	}
	if words := strings.Split(strings.TrimRight(head, " "), "  "); in.Msg == "" && len(words) > 1 {
		in.TS, in.Msg = words[0], words[len(words)-1]
	}
	if in.For != "" {
		in.Peer = profiles.OnBehalf(in.Peer, in.For)
	}
	d := &Denial{Time: in.TS, Question: Question{in.Peer, in.Profile, in.Operation, in.Name}}
	switch {
	case in.Msg == msgDenied && in.Peer != "":
		d.Why = in.Why
	case in.Msg == msgEvent && in.Reason == "denied":
		d.Kept = true
	case in.Msg == msgEvent && in.Do != "":
		d.Kept, d.Handshake, d.Remedy = true, in.Error, in.Do
		return d, nil
	case in.Msg == msgRefused:
		d.Refused, d.Partner, d.Endpoint, d.Told = in.Code, in.Partner, in.Endpoint, in.Told
	default:
		return nil, ErrNoDenial
	}
	d.Cut = strings.Contains(in.Peer+in.Operation+in.Name, "…")
	return d, nil
}

// Explanation explains a denial by the present configuration.
type Explanation struct {
	Denial *Denial `json:"denial"`
	Answer *Answer `json:"answer,omitempty"` // of the rules here
	Do     string  `json:"do"`               // what to do about it
}

// ExplainDenial returns the rule that denied a request, or the rules that are nearest to
// allowing it, and the entry that would allow it. The rules are those of c, which may have
// changed since the denial.
func ExplainDenial(c *config.Config, d *Denial) (*Explanation, error) {
	e := &Explanation{Denial: d}
	switch {
	case d.Remedy != "":
		e.Do = d.Remedy
		return e, nil
	case d.Cut:
		e.Do = "The line has not the whole of a value, so that there is no telling what was asked. Ask about it by name: swpd check --config FILE --as IDENTITY --may PROFILE OPERATION NAME."
		return e, nil
	case d.Kept:
		return e, e.kept(c)
	case d.Refused != "":
		return e, e.refused(c)
	}
	note, unknown := c.CheckOperation(d.Profile, d.Operation)
	if unknown != nil {
		note = unknown.Error() // the peer wrote the name
	}
	a, err := answer(c, d.Question, note)
	if err != nil {
		return nil, err
	}
	e.Answer = a
	switch {
	case a.Allowed && d.Why != "":
		a.Allowed, a.Barred = false, d.Why
		e.Do = "The rules allow it; the line gives the reason of the denial."
		if a.Pinned != "" {
			e.Do = "The tool differs from its pin, unless it was accepted since: " + a.repin(cmp.Or(c.Source, "FILE")) + "."
		}
	case a.Allowed:
		e.Do = "The rules allow it now. If it is denied still, run swpd reload; if that was done, another swpd wrote the line."
	case a.Barred != "":
		e.Do = "It is refused whatever the rules say: " + a.Barred + "."
	case a.Deny != nil:
		e.Do = "The identity may do nothing while " + a.Deny.Key + " " + ends(a.Deny)
	case a.Absent:
		e.Do = "Nothing has this name here, so that no rule would help. The peer has to ask for what there is."
	case a.Allow == "":
		e.Do = "No rule can allow this and nothing else."
	default:
		e.Do = "To allow this and nothing else, add the entry and run swpd reload."
		if a.AllowClient != "" {
			e.Do += " The entry for a client spares you the denials of its next steps."
		}
	}
	return e, nil
}

// ends says how a denial ends.
func ends(deny *RuleText) string {
	if strings.HasPrefix(deny.Key, "partners.") {
		return "denies it: " + deny.Text + ". Change that key, then run swpd reload."
	}
	return "matches it. Take the pattern out, then run swpd reload."
}

// kept explains why a peer was not admitted.
func (e *Explanation) kept(c *config.Config) error {
	policy, err := guard.NewPolicy(&c.Access, time.Now())
	if err != nil {
		return err
	}
	e.Answer = &Answer{Question: e.Denial.Question}
	e.Answer.decide(c, policy)
	e.Answer.Nearest = nil
	if e.Answer.Deny == nil {
		e.Do = "No pattern of access.deny matches the identity now: it is let in from the next reload on, if it was not yet."
		return nil
	}
	e.Do = "The identity is not let in while " + e.Answer.Deny.Key + " " + ends(e.Answer.Deny)
	return nil
}

// refused explains a refusal by a partner, to which the rules here do not apply.
func (e *Explanation) refused(c *config.Config) error {
	d := e.Denial
	conf, ok := c.Partners[d.Partner]
	if !ok {
		e.Do = fmt.Sprintf("The partner %q is not configured any more.", d.Partner)
		return nil
	}
	own, err := nameOf(c)
	if err != nil {
		return err
	}
	question := Question{toldTo(&conf, own, d.Identity), d.Profile, d.Operation, strings.TrimPrefix(d.Name, d.Partner+"/")}
	if d.Told != "" { // rules and denials of the partner with "for" decide about that caller
		question.Identity = profiles.OnBehalf(own, d.Told)
	}
	if d.Refused == profiles.NotFound.String() {
		e.Do = fmt.Sprintf("The rules here let it pass; partner %s (%s) has nothing of that name, or nothing that it shows to %s. Its operator can find out whether rules hide it:\n  %s",
			d.Partner, conf.Identity, own, question.Command())
		return nil
	}
	e.Do = fmt.Sprintf("The rules here let it pass; partner %s (%s) refused it with %s. Its operator can say why:\n  %s",
		d.Partner, conf.Identity, d.Refused, question.Command())
	if d.Endpoint != "" && d.Endpoint != conf.Identity {
		e.Do += fmt.Sprintf("\nIt names %s as the endpoint that refused, which is behind it.", d.Endpoint)
	}
	return nil
}

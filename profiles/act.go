package profiles

// Act is what an initiating message asks its receiver to do. The endpoint compares it with
// the hints of the sender before the handler of the message is called.
type Act struct {
	// Profile, Operation and Name are the words of the access rules. An empty Profile is the one of
	// the message.
	Profile, Operation, Name string

	// Targets are the names of all that acts, as hints and declarations have them: MCP
	// servers, kinds of task, methods. Nil: Name.
	Targets []string

	// Agents are the declarations of the connected agents of which one will act, as
	// FormatDeclaration writes them. If they are not nil, one that keeps the hints is enough,
	// and there is no other declaration.
	Agents []string

	// Ruled says that nobody acts unless the access rules allow Name.
	Ruled bool

	// Free says that hints do not apply: nothing acts, or it acts on a further message that
	// carries the same hints and is checked.
	Free bool

	// Ends says that the message can only end an earlier one, as a cancellation does.
	// Neither hints nor credentials apply.
	Ends bool
}

// ActOf returns what an initiating message asks for. It reads the message as the handler
// does, and fails if the handler would refuse the message.
func (p *Profile) ActOf(req *Request) (act Act, err error) {
	switch row, _ := p.Type(req.MsgType); {
	case p.Act != nil:
		act, err = p.Act(req)
	case row.Role&Concluding != 0:
		act.Ends = true
	case p.Inert:
		act.Free = true
	case p.Crossing != nil:
		act, err = p.crossingAct(req)
	}
	if act.Profile == "" {
		act.Profile = p.Name
	}
	return act, err
}

// crossingAct reads the act of a message that can be forwarded to a partner.
func (p *Profile) crossingAct(req *Request) (Act, error) {
	target, err := TargetOf(req.Extensions)
	if err != nil {
		return Act{}, err
	}
	errand, err := p.Crossing.Read(&req.Envelope)
	act := Act{Operation: errand.Operation}
	for _, name := range errand.Names {
		if target != "" {
			name = target + "/" + name
		}
		act.Targets = append(act.Targets, name)
	}
	switch {
	case len(act.Targets) > 0:
		act.Name = act.Targets[0]
	case target != "":
		act.Name, act.Targets = target, []string{target + "/"}
	}
	return act, err
}

// ErrDenied refuses an act that the access rules forbid, if it is refused before its
// handler could do so.
var ErrDenied = &Error{Code: SecurityPolicy, Detail: "access", Text: "the access rules do not allow this", Denied: true}

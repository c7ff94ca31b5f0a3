package profiles

// Access decides what a peer may do. Its identity arguments are identities that the channel
// authenticated, never claims in a payload.
type Access interface {
	// Allowed reports whether an identity may carry out an operation of a
	// profile on a name. It must not block, and is safe for concurrent use. The
	// implementation of Access audits a denial, not the caller.
	//
	// The Operations of a Profile say what the name is.
	Allowed(identity, profile, operation, name string) bool
}

// Reacher is an Access that can tell what is worth showing to a peer.
type Reacher interface {
	// Reaches reports whether an identity may carry out some operation of a profile on a
	// name, or on a name that begins with it and a slash. It is a query: a denial is not
	// audited.
	Reaches(identity, profile, name string) bool
}

// Reaches asks an Access that is a Reacher. With any other Access it returns false.
func Reaches(a Access, identity, profile, name string) bool {
	r, ok := a.(Reacher)
	return ok && r.Reaches(identity, profile, name)
}

// Forecaster is an Access that can tell what it would allow.
type Forecaster interface {
	// Would returns the result of Allowed without a decision: a denial is not audited.
	Would(identity, profile, operation, name string) bool
}

// Would asks an Access what it would allow, for example to list only that. If the Access is
// no Forecaster, Would calls Allowed, which audits denials.
func Would(a Access, identity, profile, operation, name string) bool {
	if f, ok := a.(Forecaster); ok {
		return f.Would(identity, profile, operation, name)
	}
	return a.Allowed(identity, profile, operation, name)
}

// Forecast returns an Access whose Allowed is Would of a, so that lists contain only what
// is allowed and no denial is audited.
func Forecast(a Access) Access { return forecast{a} }

type forecast struct{ Access }

func (f forecast) Allowed(identity, profile, operation, name string) bool {
	return Would(f.Access, identity, profile, operation, name)
}

// Surveyor is a Forecaster that can tell about many names at once.
type Surveyor interface {
	// WouldSome reports whether Would can be true for some name with a beginning. It is a
	// query: a denial is not audited.
	WouldSome(identity, profile, operation, beginning string) bool
}

// WouldSome asks an Access that is a Surveyor. With any other Access it returns true,
// because the answer is not known.
func WouldSome(a Access, identity, profile, operation, beginning string) bool {
	s, ok := a.(Surveyor)
	return !ok || s.WouldSome(identity, profile, operation, beginning)
}

// Admitter is an Access that lets some identities do nothing at all, not even what needs no
// rule.
type Admitter interface {
	// Deny returns why an identity is not admitted; nil if it is. It must not block.
	Deny(identity string) error
}

// Auditor is an Access that audits a denial of something else than its rules.
type Auditor interface {
	// Audit records that an operation was denied for another reason than the rules.
	Audit(identity, profile, operation, name, why string)
}

// Asserter is an Access with a list of peers whose callers have separate bounds. All other peers may
// assert callers, too, but share the bounds of one identity with them and gain nothing by their number.
type Asserter interface {
	// MayAssert reports whether the callers of a peer have the bounds of one identity each. It must not
	// block, and is safe for concurrent use.
	MayAssert(peer string) bool
}

// Asserters returns MayAssert of an Access, nil if it is no Asserter.
func Asserters(a Access) func(peer string) bool {
	if asserter, ok := a.(Asserter); ok {
		return asserter.MayAssert
	}
	return nil
}

// Everyone is the Access that denies nothing.
var Everyone Access = everyone{}

type everyone struct{}

func (everyone) Allowed(_, _, _, _ string) bool { return true }
func (everyone) Reaches(_, _, _ string) bool    { return true }

package profiles

// Access decides what a peer may do. It is asked with the identity that the
// channel authenticated, never with what a payload claims.
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
	// Reaches reports whether an identity may carry out some operation of a
	// profile on a name, or on one that begins with it and a slash. It is no
	// decision: a denial is not audited.
	Reaches(identity, profile, name string) bool
}

// Reaches asks an Access that is a Reacher; any other shows nothing.
func Reaches(a Access, identity, profile, name string) bool {
	r, ok := a.(Reacher)
	return ok && r.Reaches(identity, profile, name)
}

// Forecaster is an Access that can tell what it would allow.
type Forecaster interface {
	// Would reports what Allowed would. It is no decision: a denial is not
	// audited.
	Would(identity, profile, operation, name string) bool
}

// Would asks an Access what it would allow, so as to list only that. One that
// is no Forecaster is asked as if it were to decide.
func Would(a Access, identity, profile, operation, name string) bool {
	if f, ok := a.(Forecaster); ok {
		return f.Would(identity, profile, operation, name)
	}
	return a.Allowed(identity, profile, operation, name)
}

// Forecast returns an Access whose Allowed is Would of a: to list only what is allowed.
func Forecast(a Access) Access { return forecast{a} }

type forecast struct{ Access }

func (f forecast) Allowed(identity, profile, operation, name string) bool {
	return Would(f.Access, identity, profile, operation, name)
}

// Surveyor is a Forecaster that can tell about many names at once.
type Surveyor interface {
	// WouldBelow reports whether Would can be true for some name that begins with
	// name and a slash. It is no decision: a denial is not audited.
	WouldBelow(identity, profile, operation, name string) bool
}

// WouldBelow asks an Access that is a Surveyor; of any other it is not known, and so
// it may be.
func WouldBelow(a Access, identity, profile, operation, name string) bool {
	s, ok := a.(Surveyor)
	return !ok || s.WouldBelow(identity, profile, operation, name)
}

// Everyone is the Access that denies nothing.
var Everyone Access = everyone{}

type everyone struct{}

func (everyone) Allowed(_, _, _, _ string) bool { return true }
func (everyone) Reaches(_, _, _ string) bool    { return true }

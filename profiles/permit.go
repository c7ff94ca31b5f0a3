package profiles

// Permit is what the access rules have allowed an exchange. They are asked again when they
// change; see Allowed.
type Permit struct {
	Rules                    Access
	Identity                 string
	Profile, Operation, Name string
}

// Stands asks the rules again.
func (p *Permit) Stands() bool {
	return p.Rules == nil || p.Rules.Allowed(p.Identity, p.Profile, p.Operation, p.Name)
}

// Permitter is an exchange that ends when the rules no longer allow what they have allowed
// it: the Exchanges and Responders of an endpoint, and calls of RPC.
type Permitter interface{ Permit(p Permit) }

// Allowed asks a whether an identity may carry out an operation of a profile on a name, as part
// of an exchange. If it may, and the rules change so that it may not, the exchange ends with
// an *Error that is Denied. A nil Access denies nothing. of may be any value; one that is no
// Permitter is not asked about again.
func Allowed(of any, a Access, identity, profile, operation, name string) bool {
	p := Permit{a, identity, profile, operation, name}
	if !p.Stands() {
		return false
	}
	if x, ok := of.(Permitter); ok && a != nil {
		x.Permit(p)
	}
	return true
}

package identity

import (
	"time"

	"github.com/slimwire/swp/daemon/certinfo"
	"github.com/slimwire/swp/daemon/internal/health"
)

// Health returns the states of the certificate of this endpoint, and of the trust anchors that nobody replaces in time.
func (c *Credentials) Health() []health.Seen {
	list := []certinfo.Info{c.Certificate()}
	for _, a := range c.current.Load().list() {
		if !a.rolling {
			list = append(list, InfoOf([]Anchor{a}, c.now())...)
		}
	}
	return HealthOf(list, c.now())
}

// HealthOf returns the states of certificates, under the names of their files.
func HealthOf(list []certinfo.Info, now time.Time) (seen []health.Seen) {
	for _, i := range list {
		one := health.Seen{Name: i.File, State: health.OK}
		if soon, _ := Ending(i.NotBefore, i.NotAfter, now); soon {
			one.State, one.Fault, one.Why = health.Expiring, health.CertificateEnds, End(i.NotAfter, now)
		}
		if !now.Before(i.NotAfter) {
			one.State, one.Fault = health.Failing, health.CertificateEnded
		}
		seen = append(seen, one)
	}
	return seen
}

package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/claims"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/boundlog"
	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/filestore"
)

// Who vouched for a partner is in a record of this space, by its identity. The record nameRecorded says that
// such records are written: a store of an earlier release has none. No identity has a space.
const (
	spaceVouchers = "vouchers"
	nameRecorded  = " "
)

// claimTime bounds the search for the data of partners that are new.
const claimTime = 5 * time.Second

// Claim is what a store says about an identity.
type Claim struct {
	Data     bool     `json:"data"`     // of the identity, or of a caller for which it acts
	Vouchers []string `json:"vouchers"` // of the last partner with the identity
	Recorded bool     `json:"recorded"` // vouchers are recorded in this store
}

// Foreign reports whether there is data that came under none of some vouchers.
func (c *Claim) Foreign(vouchers []string) bool {
	return c.Data && !slices.ContainsFunc(vouchers, func(v string) bool { return slices.Contains(c.Vouchers, v) })
}

// Claim returns what the store says about an identity.
func (s *Storage) Claim(ctx context.Context, identity string) (Claim, error) {
	return claimOf(ctx, s.engine, identity)
}

// ClaimIn is Claim of the store of a configuration that no process has open. It changes nothing; if
// there is no store, there is no data.
func ClaimIn(ctx context.Context, c *config.Config, identity string) (Claim, error) {
	if c.Clustered() {
		return Claim{}, errors.New("the store is not in the data directory, so only a running swpd can be asked")
	}
	view, err := openView(c)
	if view == nil {
		return Claim{}, err
	}
	defer func() { _ = view.Close() }()
	return claimOf(ctx, view, identity)
}

func claimOf(ctx context.Context, in reading, identity string) (c Claim, err error) {
	if c, err = vouched(ctx, in, identity); err == nil && identity != "" {
		c.Data, err = hasData(ctx, in, identity)
	}
	return c, err
}

// vouched is claimOf without the search for data.
func vouched(ctx context.Context, in reading, identity string) (c Claim, err error) {
	if identity == "" {
		return c, nil
	}
	for _, name := range []string{nameRecorded, identity} {
		var fault error
		err := in.Scan(ctx, spaceVouchers, name, "", func(key string, _ uint64, value []byte) bool {
			switch key {
			case nameRecorded:
				c.Recorded = true
			case identity:
				fault = json.Unmarshal(value, &c.Vouchers)
			}
			return false // the key that is the whole prefix comes first
		})
		if err = errors.Join(err, fault); err != nil {
			return c, err
		}
	}
	return c, nil
}

// hasData reports whether an identity, or a caller for which it acts, owns something.
func hasData(ctx context.Context, in reading, identity string) (has bool, err error) {
	is := func(owner string) bool { return profiles.Link(owner) == identity }
	last := len(identity) - 1
	before := identity[:last] + string([]byte{identity[last] - 1, 0xff}) // no text has the octet FF
	err = in.Owners(ctx, before, func(owner string, used int64) bool {
		has = is(owner) && used > 0
		return !has && (owner <= identity || is(owner))
	})
	if err != nil || has {
		return has, err
	}
	for _, space := range filestore.Spaces(spaceArtifacts) { // artifacts, and their uploads
		err = in.Scan(ctx, space, "", "", func(name string, _ uint64, _ []byte) bool {
			owner, ok := artifact.OwnerOf(name)
			has = ok && is(owner)
			return !has
		})
		if err != nil || has {
			return has, err
		}
	}
	return false, nil
}

// foreign is a partner whose identity owns data that came under other authorities, and what to do.
type foreign struct{ partner, why string }

// Vouch records who vouches for the partners from now on. A partner that the registry would refuse for
// data of its identity is left out, with a warning in the log and in Look until the next Vouch. Vouch returns the
// identities of those, which the authorities of the partners must not vouch for.
func (s *Storage) Vouch(names *claims.Registry) (withheld []string) {
	ctx, cancel := context.WithTimeout(context.Background(), claimTime)
	defer cancel()
	var others []foreign
	for i := range names.Partners {
		other, err := s.vouch(ctx, names, &names.Partners[i])
		if other != nil {
			others = append(others, foreign{names.Partners[i].Name, boundlog.Clean(other.Error())})
			withheld = append(withheld, names.Partners[i].Identity)
		}
		if err != nil {
			s.log.Warn("it is not known who vouched for a partner", zap.String("partner", names.Partners[i].Name), zap.Error(err))
		}
	}
	s.others.Store(&others)
	if err := s.note(ctx, nameRecorded, nil); err != nil {
		s.log.Warn("it is not known who vouched for partners", zap.Error(err))
	}
	return withheld
}

// vouch records who vouches for a partner. It returns why the data of its identity is not the partner's.
func (s *Storage) vouch(ctx context.Context, names *claims.Registry, p *claims.Partner) (other, err error) {
	c, err := vouched(ctx, s.engine, p.Identity)
	if err != nil {
		return nil, err
	}
	// The search reads the names of all artifacts, so it is made only for new authorities.
	if c.Data = true; c.Recorded && c.Foreign(names.Vouchers(p)) {
		if c.Data, err = hasData(ctx, s.engine, p.Identity); err != nil {
			return nil, err
		}
	}
	all := claims.Registry{Self: names.Self, Authorities: names.Authorities, Owns: func(_ string, vouchers []string) bool { return c.Recorded && c.Foreign(vouchers) }}
	if err := all.Refuse(p); err != nil {
		s.log.Warn(err.Error())
		return err, nil
	}
	return nil, s.note(ctx, p.Identity, names.Vouchers(p))
}

// lookOthers warns of partners whose identity owns data that is not theirs.
func (s *Storage) lookOthers(h *part.Health) {
	if others := s.others.Load(); others != nil {
		for _, one := range *others {
			h.WarnWith(fmt.Sprintf("partners.%s: stored data of its identity came under other authorities, so those of the partner let nobody in under it", one.partner), ": "+one.why)
		}
	}
}

// note writes a record of vouchers, unless it is there.
func (s *Storage) note(ctx context.Context, name string, vouchers []string) error {
	value, err := json.Marshal(vouchers)
	if err != nil {
		return err
	}
	version, old, err := s.Get(ctx, spaceVouchers, name)
	if err != nil || version != 0 && string(old) == string(value) {
		return err
	}
	told := make(chan error, 1)
	s.Put(spaceVouchers, name, version, "", value, time.Time{}, func(r store.PutResult) { told <- r.Err })
	select {
	case err = <-told:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("data: who vouches for partners cannot be stored: %w", err)
	}
	return nil
}

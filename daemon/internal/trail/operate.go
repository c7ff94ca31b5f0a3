package trail

import (
	"time"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/internal/audit"
	"github.com/slimwire/swp/profiles"
)

// Profile is the profile in the records of operators' actions, and of their identities, admin:NAME.
const Profile = "admin"

// Drifted records that a partner lists a pinned tool with another descriptor now, or no more, also where only
// denials of exchanges are recorded.
func (t *Trail) Drifted(partner, identity, tool string, gone bool) {
	file := t.file.Load()
	if file == nil || *t.mode.Load() == config.AuditOff {
		return
	}
	what, text := "changed", "the partner lists the tool with another descriptor than the pinned one, so it is hidden and calls of it are refused"
	if gone {
		what, text = "gone", "the partner does not list the pinned tool any more, so calls of it are refused"
	}
	file.Find(&audit.PartnerFinding{About: audit.OfPin, Partner: partner, Identity: identity, Tool: bounded(tool), What: what, Text: text})
	file.Commit()
}

// Operate records an action of an operator, also where only denials of exchanges are recorded.
func (t *Trail) Operate(operator, action, name string, took time.Duration, err error) {
	file := t.file.Load()
	if file == nil || *t.mode.Load() == config.AuditOff {
		return
	}
	rec := audit.Record{
		Time: time.Now(), Took: took, Identity: Profile + ":" + operator, Profile: Profile, Operation: bounded(action), Name: bounded(name),
		Outcome: profiles.OutcomeOK.String(), OK: err == nil, Transport: "http",
	}
	if err != nil {
		rec.Outcome, rec.Reason = profiles.OutcomeFailed.String(), bounded(err.Error())
	}
	t.append(file, &rec)
	file.Commit()
}

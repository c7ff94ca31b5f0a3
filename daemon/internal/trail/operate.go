package trail

import (
	"time"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/internal/audit"
	"github.com/slimwire/swp/profiles"
)

// Profile is the profile in the records of operators' actions, and of their identities, admin:NAME.
const Profile = "admin"

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

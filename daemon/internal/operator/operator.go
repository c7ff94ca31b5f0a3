// Package operator has what an operator can look up in a running swpd, and do to it: one list of kinds of
// stored data and one of actions. They are at the admin listener:
//
//	GET  /store/KIND     ?owner=&name=&…: a page of stored data
//	GET  /actions        the actions, and whether there are operators
//	POST /actions/NAME   does one; the body is a Target in JSON
//
// An action needs the bearer token of an operator in admin.actions, or the token in the data directory.
// It is recorded in the log and in the audit trail, with the operator and the target.
package operator

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/internal/bridge/gate"
	"github.com/slimwire/swp/internal/disk"
	"github.com/slimwire/swp/profiles"
)

// TokenFile is the file in the data directory with the token of local operators. Each start writes
// another one.
const TokenFile = "admin.token"

// Bounds of requests.
const (
	maxBody = 16 << 10         // octets of a Target
	actFor  = 10 * time.Second // for an action
)

// nobody calls without a token.
const nobody = "nobody"

// Options configure a Desk.
type Options struct {
	Config *config.Config
	Log    *zap.Logger
	Kinds  []Kind

	// Actions are done in addition to those of Kinds.
	Actions []Action

	// Record adds an action to the audit trail.
	Record func(operator, action, name string, took time.Duration, err error)
}

// Desk serves operators. It is safe for concurrent use.
type Desk struct {
	part.Passive
	o       Options
	actions []Action
	gate    *gate.Gate
	token   string // of local operators; empty: there is no data directory
	file    string // with the token
	named   atomic.Bool
}

// Target is what an action is about: a Row of its kind. Actions of no kind have none.
type Target struct {
	Owner string `json:"owner,omitempty"`
	ID    string `json:"id,omitempty"`
}

// String names the target in logs and records. It is empty for none.
func (t Target) String() string {
	if t == (Target{}) {
		return ""
	}
	return t.ID + " of " + t.Owner
}

// Action is something that an operator can do.
type Action struct {
	Name  string `json:"name"`            // the kind, a dot and a verb, or only a verb
	Does  string `json:"does"`            // in a sentence, without a full stop
	Kind  string `json:"kind,omitempty"`  // of the rows that it is for
	Final bool   `json:"final,omitempty"` // it cannot be undone, so clients ask before

	// States are the states of its rows; empty: all.
	States []string `json:"states,omitempty"`

	// Do does it, and returns the result in a sentence. An error says why nothing was done.
	Do func(ctx context.Context, on Target) (string, error) `json:"-"`
}

// New returns a Desk. It lets nobody in before Open.
func New(o Options) (*Desk, error) {
	d := &Desk{o: o, actions: slices.Clone(o.Actions)}
	for _, kind := range o.Kinds {
		for _, action := range kind.Actions {
			action.Kind = kind.Name
			d.actions = append(d.actions, action)
		}
	}
	if o.Config.Store != config.StoreMemory && o.Config.Admin.Address != config.AdminOff {
		d.token, d.file = rand.Text(), filepath.Join(o.Config.Data, TokenFile)
	}
	var err error
	d.gate, err = gate.New(d.rules(&o.Config.Admin))
	return d, err
}

// rules returns the options of the gate.
func (d *Desk) rules(conf *config.Admin) gate.Options {
	var local []string
	if d.token != "" {
		sum := sha256.Sum256([]byte(d.token))
		local = append(local, hex.EncodeToString(sum[:]))
	}
	return conf.Gate(local, nobody)
}

// Section is the reloadable part of the configuration.
func Section(prepare part.Prepare) part.Section {
	return part.Section{Name: "operators", Stays: "the old ones stay", Keys: []string{"admin.actions"}, Prepare: prepare}
}

// Prepare changes the operators. An action of one that is removed is refused before it begins.
func (d *Desk) Prepare(c *config.Config) (part.Change, error) {
	return part.Change{
		Fields: []zap.Field{zap.String("operators", part.Names(c.Admin.Actions))},
		Commit: func() bool {
			_ = d.gate.Set(d.rules(&c.Admin)) // config has checked it
			d.named.Store(len(c.Admin.Actions) > 0)
			return false
		},
	}, nil
}

// Open implements part.Part: it writes the token into the data directory.
func (d *Desk) Open() error {
	d.named.Store(len(d.o.Config.Admin.Actions) > 0)
	if d.token == "" {
		return nil
	}
	if err := disk.Replace(d.file, []byte(d.token+"\n"), nil); err != nil {
		return fmt.Errorf("data: %w", err)
	}
	return nil
}

// Close implements part.Part.
func (d *Desk) Close() error {
	if d.token != "" {
		_ = os.Remove(d.file) // the next start replaces it
	}
	return nil
}

// Local serves requests with the token in the data directory by next, and refuses others with a
// text whose subject is what.
func (d *Desk) Local(what string, next http.HandlerFunc) http.Handler {
	return d.gate.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if caller(r) != config.LocalOperator {
			refuse(w, http.StatusForbidden, what+" is for accounts that can read "+d.file)
			return
		}
		next(w, r)
	}))
}

// caller is the name of the operator of a request.
func caller(r *http.Request) string { return strings.TrimPrefix(gate.Caller(r), gate.Prefix) }

// Knows reports whether a request has the token of an operator, or the one in the data directory.
func (d *Desk) Knows(r *http.Request) bool { return d.gate.Knows(r) }

// Add adds the paths of the package comment to mux. A request with the Origin of another page is
// refused.
func (d *Desk) Add(mux *http.ServeMux) {
	mux.HandleFunc("GET /actions", func(w http.ResponseWriter, _ *http.Request) {
		write(w, List{Actions: d.actions, Kinds: d.o.Kinds, Operators: d.named.Load()})
	})
	mux.Handle("POST /actions/{name}", d.gate.Handler(http.HandlerFunc(d.act)))
	mux.HandleFunc("GET /store/{kind}", d.list)
}

// List is the answer of GET /actions.
type List struct {
	Actions   []Action `json:"actions"`
	Kinds     []Kind   `json:"kinds"`
	Operators bool     `json:"operators"` // admin.actions names somebody
}

// act does an action.
func (d *Desk) act(w http.ResponseWriter, r *http.Request) {
	who := caller(r)
	at := slices.IndexFunc(d.actions, func(a Action) bool { return a.Name == r.PathValue("name") })
	var on Target
	switch err := decode(w, r, &on); {
	case who == nobody && !d.named.Load():
		refuse(w, http.StatusForbidden, "actions are off: admin.actions names no operator; swpd store acts for accounts that can read admin.token in the data directory")
		return
	case who == nobody:
		refuse(w, http.StatusUnauthorized, "an action needs the token of an operator in admin.actions")
		return
	case at < 0:
		refuse(w, http.StatusNotFound, fmt.Sprintf("there is no action %.40q; GET /actions lists all", r.PathValue("name")))
		return
	case err != nil:
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	action := &d.actions[at]
	switch none := (Target{}); {
	case action.Kind == "" && on != none:
		refuse(w, http.StatusBadRequest, action.Name+" has no owner and no id")
		return
	case action.Kind != "" && (on.Owner == "" || on.ID == ""):
		refuse(w, http.StatusBadRequest, action.Name+" needs the owner and the id of a row of "+action.Kind)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), actFor)
	defer cancel()
	began := time.Now()
	said, err := action.Do(ctx, on)
	took := time.Since(began)
	d.o.Record(who, action.Name, on.String(), took, err)
	fields := []zap.Field{zap.String("operator", who), zap.String("action", action.Name), zap.String("target", on.String()), zap.Duration("took", took)}
	if err != nil {
		d.o.Log.Warn("an operator's action has failed", append(fields, zap.Error(err))...)
		refuse(w, statusOf(err), textOf(err))
		return
	}
	d.o.Log.Info("an operator has acted", append(fields, zap.String("result", said))...)
	write(w, Result{Said: said})
}

// Result is the answer of an action.
type Result struct {
	Said string `json:"said"` // the result in a sentence
}

// decode reads a Target.
func decode(w http.ResponseWriter, r *http.Request, on *Target) error {
	in := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	in.DisallowUnknownFields()
	if err := in.Decode(on); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("the body is not a target such as {\"owner\": …, \"id\": …}: %w", err)
	}
	if in.More() {
		return errors.New("the body has more than one target")
	}
	return nil
}

// statusOf returns the HTTP status for an error of an action.
func statusOf(err error) int {
	var fault *profiles.Error
	switch {
	case errors.As(err, &fault) && fault.Code == profiles.NotFound:
		return http.StatusNotFound
	case errors.As(err, &fault) && fault.Code == profiles.Internal, errors.Is(err, context.DeadlineExceeded):
		return http.StatusServiceUnavailable
	}
	return http.StatusConflict
}

// textOf returns the text of an error for an operator, with the cause.
func textOf(err error) string {
	fault, ok := errors.AsType[*profiles.Error](err)
	if !ok {
		return err.Error()
	}
	text := fault.Text
	if profile, rest, ok := strings.Cut(text, ": "); ok && !strings.Contains(profile, " ") {
		text = rest
	}
	if fault.Cause != nil {
		text += ": " + fault.Cause.Error()
	}
	return cmp.Or(text, err.Error())
}

func refuse(w http.ResponseWriter, status int, why string) {
	http.Error(w, why, status)
}

func write(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

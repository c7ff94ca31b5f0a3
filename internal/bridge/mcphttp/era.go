package mcphttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/slimwire/swp/internal/bridge/mcpheader"
	"github.com/slimwire/swp/internal/bridge/upstream"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// backEra is which protocol a server speaks to those who come without a session. It
// is learned when the first stateless request comes; servers that are used by
// sessions only are never asked.
type backEra struct {
	known     bool
	modern    bool
	supported []string  // versions of a server that is not
	until     time.Time // when it is asked again; zero: never
}

// eraTime is after which a server of the legacy era is asked again: unlike a child
// process it may have become another one.
const eraTime = 10 * time.Minute

// backProbe is a probe under way.
type backProbe struct {
	done chan struct{}
	era  backEra
	err  error
}

// learn returns the era of the server, asking it if that is not known. All who wait
// share one probe.
func (b *Backend) learn(ctx context.Context) (backEra, error) {
	b.mu.Lock()
	if era := b.era; era.known && (era.until.IsZero() || time.Now().Before(era.until)) {
		b.mu.Unlock()
		return era, nil
	}
	p := b.probing() // the caller is work, too, so that is not over
	b.mu.Unlock()
	select {
	case <-p.done:
		return p.era, p.err
	case <-ctx.Done():
		return backEra{}, context.Cause(ctx)
	}
}

// probing returns the probe under way, or begins one. The caller holds mu.
func (b *Backend) probing() *backProbe {
	if b.probe == nil {
		p := &backProbe{done: make(chan struct{})}
		b.probe = p
		b.work.Go(func() { b.runProbe(p) })
	}
	return b.probe
}

// Probe asks the server server/discover, and initialize when that is refused. It returns why the server gave no proper
// answer. Answered is called for an answer, and Trouble for none.
func (b *Backend) Probe(ctx context.Context) error {
	b.mu.Lock()
	if b.over {
		b.mu.Unlock()
		return nil
	}
	p := b.probing()
	b.mu.Unlock()
	select {
	case <-p.done:
		if p.err != nil && b.ctx.Err() == nil {
			b.trouble(p.err)
		} else if p.err == nil {
			b.opts.Answered()
		}
		return p.err
	case <-ctx.Done():
		return nil
	}
}

func (b *Backend) runProbe(p *backProbe) {
	p.era, p.err = b.ask()
	b.mu.Lock()
	if p.err == nil {
		b.era = p.era
	}
	b.probe = nil
	b.mu.Unlock()
	close(p.done)
}

// ask asks server/discover, and initialize when that is refused, as clients do. No
// single code of an error says which era a server is of.
func (b *Backend) ask() (backEra, error) {
	discovered, _, err := b.probed(mcpmap.ProbeDiscover)
	var status statusFault
	switch {
	case err == nil:
		if mcpmap.DiscoveredModern(discovered.Result()) {
			return backEra{known: true, modern: true}, nil
		}
	case errors.Is(err, errShape), errors.As(err, &status): // an answer of a kind
	default:
		return backEra{}, err
	}
	initialized, session, err := b.probed(mcpmap.ProbeInitialize)
	if err != nil {
		return backEra{}, err
	}
	if session != "" {
		b.leave(session, mcpmap.ProbeVersion)
	}
	return backEra{known: true, supported: mcpmap.InitializedVersions(initialized.Result()), until: time.Now().Add(eraTime)}, nil
}

// probed sends a question of our own and returns the response, with the session
// that came with it.
func (b *Backend) probed(body string) (m mcpmap.Message, session string, err error) {
	patience := min(profiles.QuestionWait, b.opts.Brief)
	ctx, cancel := context.WithTimeoutCause(b.ctx, patience, fmt.Errorf("%w: %v", errQuiet, patience))
	defer cancel()
	var question mcpmap.Message
	_ = question.Scan([]byte(body)) // of our own
	h, err := b.posted()
	if err != nil {
		return m, "", err
	}
	if question.Modern() {
		if err := mirror(h, &question, nil); err != nil {
			return m, "", err
		}
	}
	r, err := b.brief.Post(ctx, b.opts.URL, h, question.Octets())
	if err != nil {
		return m, "", err
	}
	defer r.Close()
	if s := r.Header.Get(mcpheader.Session); visible(s) && len(s) <= maxSessionID {
		session = s
	}
	octets, err := b.first(r, mcpmap.TokenKey(question.ID()))
	if err != nil {
		return m, session, err
	}
	err = m.Scan(octets)
	return m, session, err
}

// first returns the response in a body or in a stream of events.
func (b *Backend) first(r *upstream.Response, key string) ([]byte, error) {
	responds := func(octets []byte) bool {
		var m mcpmap.Message
		return m.Scan(octets) == nil && m.Check(mcpmap.Response) == nil && (mcpmap.TokenKey(m.ID()) == key || m.Error() != nil)
	}
	good := r.Status >= 200 && r.Status <= 299
	if !good || r.MediaType() != mcpheader.Events {
		body, err := r.Body()
		switch {
		case err == nil && responds(body):
			return body, nil
		case !good:
			return nil, statusFault(r.Status)
		case err == nil:
			err = errShape
		}
		return nil, err
	}
	stream := r.Events(b.opts.MaxMessage, nil)
	for {
		ev, err := stream.Next()
		if err != nil {
			return nil, err
		}
		if isMessage(&ev) && responds(ev.Data) {
			return ev.Data, nil
		}
	}
}

// leaveTime is how long taking leave of a session may take.
const leaveTime = 5 * time.Second

// leave ends a session at the server, as far as that can be done in time. Its
// answer changes nothing.
func (b *Backend) leave(session, version string) {
	ctx, cancel := context.WithTimeout(context.Background(), min(leaveTime, b.opts.Brief))
	defer cancel()
	h, err := b.header(mcpheader.JSON)
	if err != nil {
		b.trouble(err)
		return
	}
	h.Set(mcpheader.Session, session)
	if version != "" {
		h.Set(mcpheader.Version, version)
	}
	if r, err := b.brief.Do(ctx, http.MethodDelete, b.opts.URL, h, nil); err == nil {
		r.Close()
	}
}

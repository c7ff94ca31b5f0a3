package crash

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/profiles/events"
)

// subscribe is a durable subscriber, which keeps its cursor with what it saw.
func (w *worker) subscribe(ctx context.Context) {
	after := w.past.last(aSubscription, w.series)
	w.follow(ctx, aSubscription, func() events.SubscribeOptions {
		return events.SubscribeOptions{Name: w.series, After: &after, Filter: w.filter()}
	}, func(cursor uint64) { after = cursor })
}

// listen is a subscriber that gets what comes while it is there.
func (w *worker) listen(ctx context.Context) {
	w.follow(ctx, aListener, func() events.SubscribeOptions {
		return events.SubscribeOptions{Filter: w.filter()}
	}, func(uint64) {})
}

func (w *worker) filter() string { return "type:" + w.of(countType) }

// follow subscribes, and writes down what comes.
func (w *worker) follow(ctx context.Context, kind string, with func() events.SubscribeOptions, reached func(cursor uint64)) {
	w.persist(ctx, func(ctx context.Context, c *client.Client) error {
		o := with()
		s, err := events.Open(ctx, c.Session, o)
		if err != nil {
			w.fault(kind+" of "+w.series, err)
			return err
		}
		defer s.Close()
		if o.After != nil && s.Start() != *o.After {
			w.j.begin(entry{What: sawFault, ID: w.series, Text: fmt.Sprintf("asked for what follows %d and got what follows %d", *o.After, s.Start())})
		}
		op := w.j.begin(entry{What: didBegin, Kind: kind, ID: w.series, Seq: s.Start()})
		for {
			d, err := s.Recv(ctx)
			if err != nil {
				w.fault(kind+" of "+w.series, err)
				w.j.write(entry{Op: op, What: wasDropped, Kind: kind, ID: w.series, Text: err.Error()})
				return err
			}
			seen := make([]entry, 0, len(d.Events)+1)
			for i := range d.Events {
				seen = append(seen, entry{Op: op, What: didSee, Kind: kind, ID: string(d.Events[i].EventID), Payload: digestOf(&d.Events[i])})
			}
			w.j.write(append(seen, entry{Op: op, What: didReach, Kind: kind, ID: w.series, Seq: d.Cursor})...)
			reached(d.Cursor)
		}
	})
}

// download gets one artifact after the other, of those that are listed.
func (w *worker) download(ctx context.Context) {
	luck := w.chances("downloads")
	var known []string
	for ctx.Err() == nil {
		known = w.listed(ctx, known)
		for range min(len(known), 4) {
			w.get(ctx, known[luck.IntN(len(known))])
			wait(ctx, 5*w.pace)
		}
		wait(ctx, retryPause)
	}
}

// listed appends the artifacts that were stored since.
func (w *worker) listed(ctx context.Context, known []string) []string {
	seen := make(map[string]bool, len(known))
	for _, id := range known {
		seen[id] = true
	}
	c, err := w.far(ctx, nil)
	if err != nil {
		return known
	}
	defer c.Close()
	_ = c.ListArtifacts(ctx, artifact.ListParams{}, func(e *artifact.Entry) bool {
		if !seen[e.ArtifactID] {
			known = append(known, e.ArtifactID)
		}
		return true
	})
	return known
}

// get gets an artifact, and writes down its digest or that it is not there.
func (w *worker) get(ctx context.Context, id string) {
	since, hash := clock(), sha256.New()
	name := w.of(id)
	from := client.Transfer{Connect: w.connect}
	_, err := from.GetTo(ctx, client.Fetch{ArtifactID: name}, hash)
	e := entry{What: didLook, Kind: anArtifact, ID: id, Since: since, Text: endOK, Payload: hex.EncodeToString(hash.Sum(nil))}
	refused := (*profiles.PeerError)(nil)
	switch {
	case errors.Is(err, client.ErrDigest):
	case errors.Is(err, client.ErrNoDigest), errors.As(err, &refused) && refused.Code == artifact.CodeNotFound:
		e.Text, e.Payload = endNone, ""
	case err != nil:
		w.fault(id, err)
		return
	}
	w.j.begin(e)
}

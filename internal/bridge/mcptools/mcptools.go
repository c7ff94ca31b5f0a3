// Package mcptools reads which tools an MCP server has, and learns when they
// change. It is a client of the server like any other: it calls it by way of
// profile 1.
//
// server/discover identifies a server of the stateless era; any other answer
// means the era with sessions. Changes are learned by subscriptions/listen in
// the former, in a separate session without client capabilities in the latter.
//
// Octets of tools are handed on as the server wrote them.
//
// Specification: SWP profiles §11 (tools of MCP servers), MCP mapping §1 and §3.
package mcptools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/tooldisc"
)

// Options configure a Reader. Connect and Target are required, zero elsewhere
// means the default that is named.
type Options struct {
	// Connect opens a separate connection to the server's endpoint, and returns
	// its calling side with a function that closes it and ends its calls.
	Connect func() (client *mcpmap.Client, end func(), err error)

	// Target is the name of the server there.
	Target string

	// Brief closes all connections after the tools are read, for a server with few places.
	// Changes are then not noticed.
	Brief bool

	Refresh time.Duration // after which tools are read again though no change was told, default 5 min; see SetRefresh
	Call    time.Duration // that a request may take, default profiles.ReadWait
	Pause   time.Duration // between readings at least, however often changes are told; default 1 s
}

func (o Options) withDefaults() Options {
	for _, d := range []struct {
		value *time.Duration
		def   time.Duration
	}{{&o.Refresh, 5 * time.Minute}, {&o.Call, profiles.ReadWait}, {&o.Pause, time.Second}} {
		if *d.value == 0 {
			*d.value = d.def
		}
	}
	return o
}

// Reader reads the tools of one server. It implements tooldisc.Server, and is
// safe for concurrent use.
type Reader struct {
	opts    Options
	refresh atomic.Int64 // a time.Duration
}

// New returns a Reader. Nothing is called yet.
func New(opts Options) *Reader {
	r := &Reader{opts: opts.withDefaults()}
	r.SetRefresh(r.opts.Refresh)
	return r
}

// SetRefresh changes Options.Refresh for later readings.
func (r *Reader) SetRefresh(after time.Duration) { r.refresh.Store(int64(after)) }

// Follow implements tooldisc.Server. It returns when everything it opened is
// closed.
func (r *Reader) Follow(ctx context.Context, tell func(tooldisc.Listing)) error {
	client, end, err := r.opts.Connect()
	if err != nil {
		return fmt.Errorf("mcptools: %w", err)
	}
	c := &conversation{opts: &r.opts, refresh: &r.refresh, client: client, changed: make(chan struct{}, 1)}
	defer c.work.Wait()
	defer end() // which ends the work
	if err := c.follow(ctx, tell); err != nil {
		return fmt.Errorf("mcptools: %w", err)
	}
	return nil
}

// conversation is one time of following a server.
type conversation struct {
	opts    *Options
	refresh *atomic.Int64
	client  *mcpmap.Client
	session string // of the era with sessions
	modern  bool
	id      atomic.Uint64

	// server is what it says of itself.
	server struct {
		version string
		tools   bool // it has some
		tells   bool // of changes
	}
	changed chan struct{}  // one slot: the tools may have
	work    sync.WaitGroup // the subscription
}

func (c *conversation) follow(ctx context.Context, tell func(tooldisc.Listing)) error {
	if err := c.open(ctx); err != nil {
		return err
	}
	ended, err := c.subscribe(ctx)
	if err != nil {
		return err
	}
	for {
		listing, err := c.read(ctx)
		if err != nil {
			return err
		}
		tell(listing)
		if !c.server.tells {
			return nil
		}
		if err := c.rest(ctx, ended); err != nil {
			return err
		}
	}
}

// rest waits until the tools are to be read again.
func (c *conversation) rest(ctx context.Context, ended <-chan error) error {
	refresh := time.NewTimer(time.Duration(c.refresh.Load()))
	defer refresh.Stop()
	wait := func(next <-chan time.Time, changed <-chan struct{}) error {
		select {
		case <-next:
		case <-changed:
		case err := <-ended:
			return fmt.Errorf("the server ended %s: %w", mcpmap.MethodListen, err)
		case <-ctx.Done():
			return ctx.Err()
		}
		return nil
	}
	if err := wait(refresh.C, c.changed); err != nil {
		return err
	}
	return wait(time.After(c.opts.Pause), nil) // notices until then count once
}

// read reads all pages.
func (c *conversation) read(ctx context.Context) (tooldisc.Listing, error) {
	l := tooldisc.Listing{Version: c.server.version}
	select {
	case <-c.changed: // the next read includes the changes announced so far
	default:
	}
	if !c.server.tools {
		return l, nil
	}
	cursor, octets := "", 0
	for range maxPages {
		next, err := c.page(ctx, cursor, &l, &octets)
		switch {
		case err != nil:
			return l, err
		case next == "", len(l.Tools) > tooldisc.MaxServerTools, octets > tooldisc.MaxServerOctets:
			return l, nil // what is above the bounds is not told; that there is more shows
		case next == cursor:
			return l, errors.New("tools/list: the next page is this one again")
		}
		cursor = next
	}
	return l, fmt.Errorf("tools/list: more than %d pages", maxPages)
}

// maxPages bounds how often a server may say that there is more. It is more than
// the tools that are told.
const maxPages = 2 * tooldisc.MaxServerTools

func (c *conversation) page(ctx context.Context, cursor string, l *tooldisc.Listing, octets *int) (next string, err error) {
	params := map[string]any{}
	if cursor != "" {
		params["cursor"] = cursor
	}
	result, err := c.call(ctx, "tools/list", params, mcpmap.Events{})
	if err != nil {
		return "", err
	}
	var tools []json.RawMessage
	if err := json.Unmarshal(result["tools"], &tools); err != nil {
		return "", errors.New("tools/list: the result has no list of tools")
	}
	if raw, ok := result["nextCursor"]; ok && string(raw) != "null" {
		if err := json.Unmarshal(raw, &next); err != nil {
			return "", errors.New("tools/list: nextCursor is no string")
		}
	}
	for _, tool := range tools {
		*octets += len(tool)
	}
	l.Tools = append(l.Tools, tools...)
	return next, nil
}

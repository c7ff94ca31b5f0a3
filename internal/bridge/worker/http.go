package worker

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/slimwire/swp/internal/bridge/upstream"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
)

// HTTP is an a2a.Worker that posts each task to a URL and reads lines back. The
// line with the output is the last that is read. It is safe for concurrent use.
type HTTP struct {
	client *upstream.Client
	url    string
}

// NewHTTP returns the worker that posts to url, which comes from the
// configuration, through client, which stays the caller's.
func NewHTTP(client *upstream.Client, url string) (*HTTP, error) {
	if err := upstream.CheckURL(url); err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	return &HTTP{client: client, url: url}, nil
}

// Run implements a2a.Worker. It posts once: a task that is lost on the way has
// failed.
func (h *HTTP) Run(ctx context.Context, t *a2a.Task, event func(message string, payload []byte) error) ([]byte, error) {
	r, err := h.client.Post(ctx, h.url, header(ctx, t), t.Input)
	if err != nil {
		return nil, lost(ctx, err)
	}
	defer r.Close()
	if r.Status < 200 || r.Status > 299 {
		return nil, refused(r)
	}
	a := answer{event: event}
	for {
		line, err := r.Line()
		if err != nil {
			return nil, lost(ctx, err)
		}
		if err := a.take(line); err != nil {
			return nil, err
		}
		if a.finished {
			return a.output, nil
		}
	}
}

// header describes a task to its worker.
func header(ctx context.Context, t *a2a.Task) http.Header {
	h := http.Header{
		"Accept":        {"application/x-ndjson"},
		"Swp-Task-Id":   {hex.EncodeToString(t.ID)},
		"Swp-Task-Kind": {t.Kind},
		"Swp-Peer":      {profiles.Link(t.Peer)},
	}
	if caller := profiles.For(t.Peer); caller != "" {
		h["Swp-For"] = []string{caller}
	}
	if trace := profiles.TraceOf(ctx); trace.Parent != "" {
		h["Traceparent"] = []string{trace.Parent}
		if trace.State != "" {
			h["Tracestate"] = []string{trace.State}
		}
	}
	if hints := profiles.HintsOf(ctx, t.Kind); len(hints) > 0 {
		h["Swp-Policy"] = []string{profiles.FormatHints(hints)}
	}
	if d := profiles.DelegationOf(ctx); d != nil {
		h["Swp-Delegation"] = []string{profiles.FormatDelegation(d)}
	}
	return h
}

// ErrRefused: the worker has refused a task, with a status 4xx. It works.
var ErrRefused = errors.New("worker: the task was refused")

// refused is why a response with another status than 2xx fails the task: a text
// in its body is for the initiator.
func refused(r *upstream.Response) error {
	text := fmt.Sprintf("the worker answered %d %s", r.Status, http.StatusText(r.Status))
	if r.MediaType() == "text/plain" {
		if line, err := r.Line(); err == nil && reason(line) != "" {
			text += ": " + reason(line)
		}
	}
	if r.Status >= 400 && r.Status <= 499 {
		return fmt.Errorf("%w: %w", &a2a.Failure{Reason: text}, ErrRefused)
	}
	return &a2a.Failure{Reason: text}
}

// lost sorts the error of a call. What reaches the initiator names no host.
func lost(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	text := "the connection to the worker was lost"
	switch {
	case errors.Is(err, io.EOF):
		text = "the worker ended without an output"
	case errors.Is(err, upstream.ErrUnreached):
		text = "the worker cannot be reached"
	case errors.Is(err, upstream.ErrBusy):
		text = "the worker is busy"
	case errors.Is(err, upstream.ErrSilent):
		text = "the worker was silent for too long"
	case errors.Is(err, upstream.ErrTotal):
		text = "the worker took too long"
	case errors.Is(err, upstream.ErrTooLarge):
		text = "the worker wrote too much"
	}
	return fmt.Errorf("%w: %w", &a2a.Failure{Reason: text}, err)
}

package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/internal/jsonobject"
	"github.com/slimwire/swp/internal/plain"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
)

// follow prints a task as it goes on.
type follow struct {
	entry  *client.Entry
	resume bool   // the task was sent, now or before
	after  uint64 // number of the last event that was printed
	mark   bool   // the journal learns what is printed

	f        *flags
	raw      bool // standard output is no terminal: octets are printed as they are
	events   int
	progress *client.Progress
}

// line is a line of JSON about a task. Octets that are JSON are embedded
// unchanged, others are in the member of the same name and _base64.
type line struct {
	Type          string          `json:"type"` // sent, event, gap or result
	Task          string          `json:"task_id"`
	Seq           uint64          `json:"seq,omitempty"`
	Message       string          `json:"message,omitempty"`
	Payload       json.RawMessage `json:"payload,omitempty"`
	PayloadBase64 []byte          `json:"payload_base64,omitempty"`
	From          uint64          `json:"from,omitempty"` // of the events that are lost
	To            uint64          `json:"to,omitempty"`
	OK            *bool           `json:"ok,omitempty"`
	Output        json.RawMessage `json:"output,omitempty"`
	OutputBase64  []byte          `json:"output_base64,omitempty"`
	Reason        string          `json:"reason,omitempty"`
	client.Author
}

func (f *flags) follow(ctx context.Context, p *follow) error {
	e := p.entry
	p.f, p.raw = f, !client.IsTerminal(f.out)
	p.progress = client.NewProgress(f.errOut, p.status())
	var said error
	if p.resume {
		said = p.sayID()
	}
	result, err := client.Follow(ctx, f.dialer(e.Address), client.FollowOptions{
		Task: task(e), Agent: e.Agent, Resume: p.resume, After: p.after, Patience: f.timeout,
		Sent: func() { p.resume, said = true, p.sayID() }, Event: p.event, Lost: p.lost,
	})
	p.progress.Stop()
	switch {
	case err != nil && !p.resume: // it never left
		return errors.Join(err, e.Forget())
	case ctx.Err() != nil:
		return fmt.Errorf("interrupted; the task continues\nPrint the rest of it with: %s\nEnd it with: %s", p.f.commandLine("a2a", "resume", e.ID), p.f.commandLine("a2a", "cancel", e.ID))
	case err != nil:
		return fmt.Errorf("%w\nThe task may go on. Print the rest of it with: %s", err, p.f.commandLine("a2a", "resume", e.ID))
	}
	return errors.Join(said, p.result(result))
}

// sayID prints the id of the task.
func (p *follow) sayID() error {
	return p.progress.Print("", func() error {
		if p.f.asJSON {
			return p.f.printJSON(line{Type: "sent", Task: p.entry.ID})
		}
		_, _ = fmt.Fprintf(p.f.errOut, "task %s\n", p.entry.ID)
		return nil
	})
}

func (p *follow) status() string {
	return visible(p.entry.Kind) + ", " + plain.Count(p.events, "event")
}

func (p *follow) lost(err error, pause time.Duration) {
	_ = p.progress.Print("", func() error {
		p.f.warnf("%s; trying again in %v", lost(err), pause.Round(time.Millisecond))
		return nil
	})
}

// lost says why something is tried again: what an endpoint has answered, or how the
// connection was lost.
func lost(err error) string {
	text := plain.Error(root(err))
	if code, by, ok := client.Refusal(err); ok {
		return visible(strings.TrimSuffix(text+"; "+by.Said(code), "; "))
	}
	return "connection lost (" + text + ")"
}

// root is an error without what it explains.
func root(err error) error {
	if explained, ok := errors.AsType[*client.Explained](err); ok {
		return explained.Err
	}
	return err
}

func (p *follow) event(ev *a2a.Event) error {
	p.events++
	return p.progress.Print(p.status(), func() error {
		if err := p.gap(ev.FirstHeld); err != nil {
			return err
		}
		if err := p.printEvent(ev); err != nil {
			return err
		}
		if ev.Seq == 0 {
			return nil
		}
		p.after = ev.Seq
		if !p.mark {
			return nil
		}
		return p.entry.Mark(ev.Seq)
	})
}

func (p *follow) printEvent(ev *a2a.Event) error {
	if p.f.asJSON {
		l := line{Type: "event", Task: p.entry.ID, Seq: ev.Seq, Message: ev.Message}
		l.Payload, l.PayloadBase64 = embed(ev.Payload)
		return p.f.printJSON(l)
	}
	if ev.Message != "" {
		out := p.f.out
		if acknowledges(ev) {
			out = p.f.errOut
		}
		if _, err := fmt.Fprintln(out, visible(ev.Message)); err != nil {
			return err
		}
	}
	return p.printOctets(ev.Payload)
}

// acknowledges reports whether an event says no more than that the task was
// taken in. It depends on the speed of the worker, so it is not part of the
// output of the task.
func acknowledges(ev *a2a.Event) bool {
	return ev.Seq == 1 && ev.Message == "accepted" && len(ev.Payload) == 0
}

// gap says which events are lost.
func (p *follow) gap(firstHeld uint64) error {
	if firstHeld <= p.after+1 {
		return nil
	}
	from, to := p.after+1, firstHeld-1
	p.after = to
	if p.f.asJSON {
		return p.f.printJSON(line{Type: "gap", Task: p.entry.ID, From: from, To: to})
	}
	p.f.warnf("events %d to %d are no longer held", from, to)
	return nil
}

// printOctets prints octets unchanged, unless a terminal would interpret them.
func (p *follow) printOctets(octets []byte) error {
	if len(octets) == 0 {
		return nil
	}
	text := string(octets)
	if !p.raw {
		text = visible(text)
	}
	_, err := io.WriteString(p.f.out, text+"\n")
	return err
}

func (p *follow) result(r *client.TaskResult) error {
	if err := p.gap(r.FirstHeld); err != nil {
		return err
	}
	if p.f.asJSON {
		l := line{Type: "result", Task: p.entry.ID, OK: &r.OK, Reason: r.Reason, Author: r.By}
		l.Output, l.OutputBase64 = embed(r.Output)
		if err := p.f.printJSON(l); err != nil {
			return err
		}
	} else if err := p.printOctets(r.Output); err != nil {
		return err
	}
	if p.mark {
		if err := p.entry.Finish(r.OK); err != nil {
			return err
		}
	}
	if !r.OK {
		text := "the task has failed: " + visible(r.Reason)
		if by := r.By.Said(r.Refused.String()); by != "" {
			text += "\n" + visible(by)
		}
		if r.Refused != profiles.OK {
			return &client.AnswerError{Text: text, Code: r.Refused.String(), By: r.By}
		}
		return errors.New(text)
	}
	return nil
}

// embed returns octets as JSON if that is what they are.
func embed(octets []byte) (raw json.RawMessage, other []byte) {
	if jsonobject.Valid(octets) {
		return octets, nil
	}
	return nil, octets
}

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/internal/plain"
)

// Kinds of errors, as a Report tells them.
const (
	KindUsage       = "usage"       // the command line or the configuration is wrong
	KindConnection  = "connection"  // the other end was not reached, or was lost
	KindRefused     = "refused"     // the other end has said no
	KindInterrupted = "interrupted" // by SIGINT or SIGTERM
	KindFailed      = "failed"      // all else
)

// Report is an error as JSON.
type Report struct {
	Kind     string `json:"kind"`
	Message  string `json:"message"`
	Advice   string `json:"advice,omitempty"`   // what to do about it
	Address  string `json:"address,omitempty"`  // of the connection
	Code     string `json:"code,omitempty"`     // what the other end has answered
	Endpoint string `json:"endpoint,omitempty"` // identity of the one that has refused
	Partner  string `json:"partner,omitempty"`  // of the other end, through which that was reached
	Usage    string `json:"usage,omitempty"`    // line that was not kept to
	ExitCode int    `json:"exit_code"`

	help string // command whose help says more
}

func (p *Program) report(cmd *cobra.Command, s *signals, err error, code int) *Report {
	r := &Report{Kind: KindFailed, Message: plain.Error(err), ExitCode: code}
	usage, wrong := asUsage(err)
	switch {
	case s.first() != 0:
		r.Kind = KindInterrupted
		r.Message = strings.Replace(r.Message, context.Canceled.Error(), errInterrupted.Error(), 1)
		return r
	case wrong:
		r.Kind, r.Usage = KindUsage, usage.UsageLine()
		if r.Usage != "" {
			r.help = cmd.CommandPath() + " --help"
		}
	case code == ExitUsage:
		r.Kind = KindUsage
	}
	var faults interface{ Verbatim() string } // its lines are faults of a configuration, and no advice
	if message, advice, ok := strings.Cut(r.Message, "\n"); ok && r.Kind == KindUsage && !errors.As(err, &faults) {
		r.Message, r.Advice = message, advice
	}
	if p.Describe != nil {
		p.Describe(err, r)
	}
	return r
}

// writeText writes each line of a report after the name of the program.
func (r *Report) writeText(w io.Writer, name string) {
	text := r.Message
	if r.Advice != "" {
		text += "\n" + r.Advice
	}
	if r.Usage != "" {
		text += "\nusage: " + r.Usage
	}
	if r.help != "" {
		text += "\nmore: " + r.help
	}
	for line := range strings.Lines(text) {
		_, _ = fmt.Fprintf(w, "%s: %s\n", name, strings.TrimSuffix(line, "\n"))
	}
}

// writeJSON writes a report as one line.
func (r *Report) writeJSON(w io.Writer) {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(map[string]*Report{"error": r})
}

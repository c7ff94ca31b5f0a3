package storage

import (
	"iter"

	"github.com/slimwire/swp/daemon/internal/operator"
	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/transport/endpoint"
)

// Desk is what operators look up and do; see package operator.
type Desk = operator.Desk

// TokenFile is operator.TokenFile.
const TokenFile = operator.TokenFile

// DeskOptions configure a Desk.
type DeskOptions = operator.Options

// NewDesk returns a Desk with the stored data.
func (s *Storage) NewDesk(o DeskOptions) (*Desk, error) {
	o.Kinds = operator.Kinds(s.engine, s.served)
	return operator.New(o)
}

// DeskSection is operator.Section.
func DeskSection(prepare part.Prepare) part.Section { return operator.Section(prepare) }

// EndSession returns operator.EndSession.
func EndSession(sessions func() iter.Seq[*endpoint.Session]) Action {
	return operator.EndSession(sessions)
}

// The types of requests and answers are those of package operator.
type (
	Action = operator.Action
	Target = operator.Target
	Result = operator.Result
	Kind   = operator.Kind
	Row    = operator.Row
	Rows   = operator.Rows
)

// MaxRows is operator.MaxRows.
const MaxRows = operator.MaxRows

// Kinds returns the kinds of stored data, to describe them: their functions cannot be called.
func Kinds() []Kind { return operator.Kinds(nil, nil) }

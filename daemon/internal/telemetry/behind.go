package telemetry

import (
	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/internal/health"
)

// Records are the records of the things behind the endpoint.
type Records = health.Records

// Record has the state of one thing.
type Record = health.Record

// Kinds of things that are known elsewhere, for Records.Watch.
const (
	Partner     = health.Partner
	Certificate = health.Certificate
	Store       = health.Store
)

// NewRecords returns records that a file keeps over restarts; empty: none does.
func NewRecords(file string, log *zap.Logger) *Records { return health.New(file, log) }

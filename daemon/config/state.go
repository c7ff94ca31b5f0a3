package config

import "time"

// Values of store.
const (
	StoreEmbedded = "embedded" // in a file below data
	StoreMemory   = "memory"   // ends with the process; for tests
)

// Quota bounds the content of the store.
type Quota struct {
	Total       Size `yaml:"total"`
	PerIdentity Size `yaml:"per_identity"`
}

// A2A configures profile 2.
type A2A struct {
	Workers   map[string]A2AWorker `yaml:"workers"`
	Agents    map[string]A2AAgent  `yaml:"agents"`    // at URLs
	Retention time.Duration        `yaml:"retention"` // of Events and Results after a task has ended
	Deadline  time.Duration        `yaml:"deadline"`  // of tasks without one
	Abandoned time.Duration        `yaml:"abandoned"` // how long a task waits for a worker that left
}

// A2AWorker carries out tasks: a command that is run for each, or a URL that
// each is posted to.
type A2AWorker struct {
	Kinds    List              `yaml:"kinds"`
	Command  string            `yaml:"command"`
	Args     []string          `yaml:"args"`
	Env      map[string]string `yaml:"env"`
	Dir      string            `yaml:"dir"`
	URL      string            `yaml:"url" form:"url"`
	Schema   string            `yaml:"schema"`   // JSON Schema of the input, a file
	Tasks    int               `yaml:"tasks"`    // at once; more wait
	Nodes    string            `yaml:"nodes"`    // where processes run: NodesActive or NodesAll
	Timeout  time.Duration     `yaml:"timeout"`  // of a URL, without a line of a task
	Deadline time.Duration     `yaml:"deadline"` // of its tasks without one
	Hints    Hints             `yaml:"hints"`
}

// RPC configures profile 12.
type RPC struct {
	ReplayWindow time.Duration         `yaml:"replay_window"` // how long outcomes under an idempotency_key are kept
	Backends     map[string]RPCBackend `yaml:"backends"`
}

// RPCBackend serves methods over HTTP: each call is a POST to the URL with the
// name of the method appended as path.
type RPCBackend struct {
	URL        string        `yaml:"url" form:"url"`
	Methods    List          `yaml:"methods"`    // names, in full
	Repeatable List          `yaml:"repeatable"` // those that do no harm when they run twice
	Timeout    time.Duration `yaml:"timeout"`    // without a message of a call
	Hints      Hints         `yaml:"hints"`
}

// Events configures profile 13.
type Events struct {
	Retention time.Duration `yaml:"retention"` // 0 = live only, nothing is stored
}

// State configures profile 17.
type State struct {
	Retention time.Duration `yaml:"retention"` // after the last put of a state; 0 = until its owner forgets it
}

// Telemetry configures the export of traces.
type Telemetry struct {
	OTLP string `yaml:"otlp" form:"url"` // URL of a collector that speaks OTLP over HTTP; empty = nowhere
}

package health

import (
	"fmt"
	"slices"
	"strings"
)

// Kind is a kind of things.
type Kind string

// The kinds, and the section of the configuration that has their names.
const (
	Server      Kind = "server"      // mcp.servers
	Worker      Kind = "worker"      // a2a.workers
	Agent       Kind = "agent"       // a2a.agents
	Backend     Kind = "backend"     // rpc.backends
	Partner     Kind = "partner"     // partners
	Certificate Kind = "certificate" // files
	Store       Kind = "store"       // the store, and the audit trail
)

// State is what is known of a thing.
type State string

// The states, the worst last.
const (
	OK        State = "ok"        // the last use of it was a success
	Untried   State = "untried"   // it was not used since it is in the configuration
	Starting  State = "starting"  // its first use is under way
	Suspended State = "suspended" // an operator has taken it out of use
	Expiring  State = "expiring"  // it will not be valid soon
	Away      State = "away"      // it cannot be reached, or refuses this endpoint
	Failing   State = "failing"   // the last use of it was a failure
)

// States returns all states, the worst last.
func States() []State { return []State{OK, Untried, Starting, Suspended, Expiring, Away, Failing} }

// Well reports whether no operator has to act.
func (s State) Well() bool { return s == OK || s == Untried || s == Starting }

// worse reports whether s is worse than another state.
func (s State) worse(than State) bool {
	return slices.Index(States(), s) > slices.Index(States(), than)
}

// kindRow describes a kind.
type kindRow struct {
	kind Kind
	noun string // before its name in texts

	// warned says that readiness warns of its failures. The parts of other kinds warn themselves, with more than a record has.
	warned bool
}

var kinds = []kindRow{
	{Server, "mcp server", true},
	{Worker, "a2a worker", true},
	{Agent, "a2a agent", true},
	{Backend, "rpc backend", true},
	{Partner, "partner", false},
	{Certificate, "certificate", false},
	{Store, "store", false},
}

// row returns the row of a kind; the zero row for an unknown one.
func (k Kind) row() kindRow {
	i := slices.IndexFunc(kinds, func(r kindRow) bool { return r.kind == k })
	if i < 0 {
		return kindRow{}
	}
	return kinds[i]
}

// Fault is what can be wrong with a thing.
type Fault string

// The faults.
const (
	ServerStart      Fault = "server_start"
	ServerEnded      Fault = "server_ended"
	ServerSilent     Fault = "server_silent"
	ServerRequest    Fault = "server_request"
	ServerTools      Fault = "server_tools"
	WorkerStart      Fault = "worker_start"
	WorkerTask       Fault = "worker_task"
	WorkerUnreached  Fault = "worker_unreached"
	AgentRequest     Fault = "agent_request"
	BackendCall      Fault = "backend_call"
	BackendUnreached Fault = "backend_unreached"
	PartnerAway      Fault = "partner_away"
	PartnerRefuses   Fault = "partner_refuses"
	PartnerBarred    Fault = "partner_barred"
	CertificateEnds  Fault = "certificate_ends"
	CertificateEnded Fault = "certificate_ended"
	StoreWrite       Fault = "store_write"
	TrailWrite       Fault = "trail_write"
)

// faultRow describes a fault.
type faultRow struct {
	fault Fault
	kind  Kind

	what   string // goes on after the noun and the name
	remedy string // %[1]s is the name

	// reach says that a connection is enough to show that the fault has passed.
	reach bool
}

var faults = []faultRow{
	{ServerStart, Server, "its command could not be started", "correct command and dir of mcp.servers.%[1]s (swpd check looks at them), then run swpd reload", false},
	{ServerEnded, Server, "its process ended", "the last lines of standard error say why: correct command, args or env of mcp.servers.%[1]s and run swpd reload; the next call starts it again", false},
	{ServerSilent, Server, "a call had no answer in time", "see whether the server hangs, or raise mcp.servers.%[1]s.timeout", false},
	{ServerRequest, Server, "a request failed", "see whether the server runs at url of mcp.servers.%[1]s; HTTP status 401 and 403 are about its headers or headers_from", false},
	{ServerTools, Server, "its tools are not all known", "the server lists a tool that cannot be used, or too many of them: have its owner correct the list", false},
	{WorkerStart, Worker, "its command could not be started", "correct command and dir of a2a.workers.%[1]s (swpd check looks at them), then run swpd reload", false},
	{WorkerTask, Worker, "a task failed", "see the last lines of standard error; a task with a wrong input fails, too, and the next task that is done clears this", false},
	{WorkerUnreached, Worker, "it is not reached", "see whether it runs and listens at url of a2a.workers.%[1]s", true},
	{AgentRequest, Agent, "a request failed", "see whether the agent runs at url of a2a.agents.%[1]s; HTTP status 401 and 403 are about its headers", false},
	{BackendCall, Backend, "a call failed", "see the log of the server behind url of rpc.backends.%[1]s", false},
	{BackendUnreached, Backend, "it is not reached", "see whether it runs and listens at url of rpc.backends.%[1]s", true},
	{PartnerAway, Partner, "there is no session to it", "the last error says why: see whether the partner runs, and compare its address and identity with partners.%[1]s; deliveries wait in its queue", false},
	{PartnerRefuses, Partner, "it refuses this endpoint", "its operator finds the cause in the log of the partner", false},
	{PartnerBarred, Partner, "it is not let in", "swpd partner list shows why; swpd partner resume %[1]s resumes a suspended one", false},
	{CertificateEnds, Certificate, "it ends soon", "renew it and replace the file %[1]s: swpd reads the new one within seconds", false},
	{CertificateEnded, Certificate, "it has ended", "renew it and replace the file %[1]s: swpd reads the new one within seconds", false},
	{StoreWrite, Store, "it cannot be written", "make room on its volume or correct its permissions; it goes on by itself", false},
	{TrailWrite, Store, "it cannot be written", "make room in the directory of the audit trail or correct its permissions; it goes on by itself", false},
}

// row returns the row of a fault; the zero row for an unknown one.
func (f Fault) row() faultRow {
	i := slices.IndexFunc(faults, func(r faultRow) bool { return r.fault == f })
	if i < 0 {
		return faultRow{}
	}
	return faults[i]
}

// remedy returns what to do about a fault of a thing.
func (f Fault) remedy(name string) string {
	text := f.row().remedy
	if !strings.Contains(text, "%[1]s") {
		return text
	}
	return fmt.Sprintf(text, name)
}

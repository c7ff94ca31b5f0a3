package swp_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/slimwire/swp"

// rule says what the packages that match a pattern may import, besides the
// standard library. Patterns are paths below the module: "x" is one package,
// "x/*" those directly below it, "x/..." it and all below. The first rule that
// matches a package holds; a package without a rule fails the test.
type rule struct {
	packages string
	ours     []string // patterns of packages of this module
	others   []string // modules, by path prefix
	why      string
}

var rules = []rule{
	{"frame", nil, nil, "anyone can take the framing into their own program"},
	{"e1", nil, nil, "anyone can take the envelope into their own program"},
	{"slip/ucr", nil, nil, "one table and one hash for all who speak SLIP"},
	{"slip/*", []string{"slip/ucr"}, nil, "anyone can take the texts into their own program"},
	{"sdl/canonical", nil, nil, "values, and the octets that are hashed and signed: anyone can take them into their own program"},
	{"sdl/schema", []string{"sdl/canonical"}, []string{"github.com/santhosh-tekuri/jsonschema/v6"}, "a closed set of keywords in front of the validator"},
	{"sdl/fetch", []string{"sdl/canonical"}, nil, "the one place of the language that opens connections"},
	{"sdl/seal", []string{"sdl/canonical"}, []string{"golang.org/x/crypto"}, "keys, signatures and sealed payloads, of values"},
	{"sdl", []string{"sdl/canonical", "sdl/schema"}, nil, "the envelope, for whatever carries it"},
	{"sdl/trust", []string{"sdl", "sdl/canonical", "sdl/seal"}, nil, "who may say what, for whoever stores it"},
	{"sdl/*", []string{"sdl", "sdl/*"}, nil, "the language knows nothing of SWP"},
	{"vectors", nil, nil, "data must not depend on what it tests"},
	{"vectors/datatest", nil, nil, "opens files, for the tests of any package"},
	{"vectors/gen", []string{"vectors"}, nil, "fixtures are written octet by octet, not by the code they test"},

	{"internal/effort", nil, nil, "how much work tests do, for the tests of any package"},
	{"internal/claimed", nil, nil, "the claimed classes, for programs and for peers"},
	{"internal/programs", []string{"vectors/datatest"}, nil, "the programs, for the tests that run them"},

	{"internal/fair", []string{"profiles"}, nil, "turns and shares of identities, for whatever they use together; of profiles only the form of an identity and the error"},
	{"internal/fair/fairtest", nil, nil, "a table of measurements, for the tests of every pool"},
	{"internal/backoff", nil, nil, "pauses between attempts, for whoever tries again"},
	{"internal/plain", nil, nil, "errors in the words of users"},
	{"internal/causes", nil, nil, "one table of the causes of refusals, for whoever says one or is told"},
	{"internal/farend", []string{"internal/causes", "transport", "transport/endpoint"}, nil, "refusals by the other end, for the client and for the links of the server"},
	{"internal/strangers", nil, nil, "places for connections without an authenticated peer, for every entrance"},
	{"internal/memory", nil, nil, "the budget for octets that others make this process hold, for endpoints and HTTP fronts"},
	{"internal/room", []string{"profiles"}, nil, "how much may wait for a peer, for endpoints, the mapping of MCP, and the connections that stand in for endpoints in tests"},

	{"internal/disk", []string{"store"}, nil, "files and directories, for every engine of a store and whoever replaces a file; of store only the errors"},
	{"internal/disk/disktest", nil, nil, "small volumes, for the tests of what a full disk does"},

	{"internal/jsonobject", nil, nil, "one reading of JSON for all who decide by it"},

	{"internal/socket", nil, []string{"golang.org/x/sys/unix"}, "the state of a TCP socket, for those that must not read"},
	{"transport", []string{"internal/backoff", "internal/socket"}, nil, "TLS policy and interfaces stand on crypto/tls alone"},
	{"transport/tlsconn", []string{"internal/strangers", "transport"}, nil, "TLS over TCP is in the standard library"},
	{"transport/quicconn", []string{"internal/strangers", "transport"}, []string{"github.com/quic-go/quic-go"}, "the one place that knows quic-go"},
	{"transport/transporttest", []string{"transport", "transport/tlsconn", "transport/quicconn"}, []string{"go.uber.org/goleak"}, "a test kit: the same scenarios over every transport"},
	{"internal/spiffe/spiffetest", []string{"transport/transporttest"}, []string{"github.com/spiffe/go-spiffe/v2", "google.golang.org/grpc"}, "a test kit: a Workload API on a socket"},
	{"internal/spiffe/bundle", []string{"internal/backoff", "internal/disk", "internal/spiffe"}, []string{"github.com/spiffe/go-spiffe/v2"}, "the one place that asks bundle endpoints, and the files that it keeps"},
	{"internal/spiffe", nil, nil, "names, for configurations and programs"},
	{"internal/spiffe/workload", []string{"internal/plain", "internal/spiffe", "transport"}, []string{"github.com/spiffe/go-spiffe/v2", "google.golang.org/grpc"}, "the one place that asks the Workload API, for endpoints and clients"},
	{"transport/endpoint/endpointtest", []string{"transport", "transport/transporttest", "transport/endpoint", "profiles", "e1"}, nil, "a test kit: profiles over every transport"},
	{"transport/endpoint", []string{"internal/backoff", "internal/caller", "internal/fair", "internal/memory", "internal/room", "frame", "e1", "profiles", "transport"}, nil, "joins the layers; names no logger but that of the standard library, no profile, no concrete transport"},

	{"profiles", []string{"e1"}, nil, "the contract between endpoint and profiles"},
	{"profiles/p1", []string{"profiles", "e1"}, []string{"google.golang.org/protobuf/encoding/protowire"}, "the wire of proto3, without its messages, and the envelopes of the refusals that are written in it"},
	{"profiles/profiletest", []string{"internal/room", "profiles", "e1"}, []string{"github.com/google/go-cmp"}, "the contract as a test"},
	{"profiles/all", []string{"internal/fair", "profiles", "profiles/*", "e1"}, nil, "the one list"},
	{"profiles/slip", []string{"internal/fair", "profiles", "profiles/p1", "e1", "slip/*"}, nil, "a profile that speaks the languages it carries"},
	{"profiles/*", []string{"internal/backoff", "internal/fair", "internal/room", "store", "profiles", "profiles/p1", "e1"}, nil, "a profile knows no other profile, no frame, transport or bridge; of store only the interfaces"},
	{"proto", nil, []string{"github.com/bufbuild/protocompile"}, "the schemas, compiled for the generator and for tests"},
	{"proto/prototest", []string{"proto"}, []string{"google.golang.org/protobuf"}, "a test kit: messages beside another reading of their schema"},
	{"tools/p1gen", []string{"proto"}, []string{"github.com/bufbuild/protocompile/linker", "google.golang.org/protobuf"}, "writes the messages of the profiles, and is no part of the programs"},

	{"internal/partner", []string{"internal/backoff", "internal/causes", "internal/fair", "internal/farend", "internal/plain", "internal/caller", "profiles", "profiles/agdisc", "profiles/tooldisc", "profiles/mcpmap", "profiles/a2a", "profiles/relay", "profiles/rpc", "transport", "transport/endpoint", "e1"}, nil, "what is passed on between endpoints: no YAML, no logger, no concrete transport"},

	{"internal/receipts", []string{"e1", "internal/audit", "internal/backoff", "profiles", "profiles/rpc"}, nil, "what partners sign for each other, of exchanges that others record"},
	{"internal/audit", []string{"internal/disk", "transport"}, nil, "files with a chain of hashes, and whose signatures count; what is recorded is the business of others"},
	{"internal/caller", nil, []string{"github.com/go-jose/go-jose/v4"}, "assertions of callers, which the endpoint verifies and a link makes"},
	{"internal/access", []string{"profiles"}, nil, "rules and patterns, for whoever has something to protect"},
	{"internal/access/token", []string{"profiles/cred"}, []string{"github.com/go-jose/go-jose/v4"}, "the tokens of issuers"},
	{"store", nil, nil, "small interfaces, and the results of their operations"},
	{"internal/sdlaudit", []string{"internal/disk", "sdl", "sdl/canonical", "sdl/seal"}, nil, "the file of the audit chain of A2A-SDL; what is recorded is the business of sdl/serve"},
	{"store/internal/clock", nil, nil, "the time of an engine"},
	{"store/internal/blocks", nil, nil, "the format of stored octets"},
	{"store/internal/usage", []string{"internal/fair", "store"}, nil, "quotas of owners of blobs"},
	{"store/internal/lines", []string{"internal/fair", "store"}, nil, "the order of operations on blobs"},
	{"store/sharedblobs", []string{"internal/disk", "internal/fair", "store", "store/internal/blocks", "store/internal/clock", "store/internal/lines", "store/internal/usage"}, []string{"github.com/minio/minio-go/v7"}, "objects beside records that several processes share; the one place that knows S3"},
	{"store/internal/checksum", nil, nil, "the checksum of a row"},
	{"store/internal/gather", []string{"internal/fair", "store"}, nil, "what waits for the writer of an engine"},
	{"store/internal/quota", []string{"internal/fair", "store"}, nil, "the limits of an engine"},
	{"store/sqlstore/sqlstoretest", nil, nil, "migrations that no release has, for the tests of upgrades"},
	{"store/sqlstore", []string{"internal/disk", "internal/fair", "store", "store/internal/checksum", "store/internal/clock", "store/internal/gather", "store/internal/quota"}, []string{"modernc.org/sqlite"}, "one engine a folder; the one place that knows SQLite"},
	{"store/filestore", []string{"internal/disk", "internal/fair", "store", "store/internal/blocks", "store/internal/clock", "store/internal/lines", "store/internal/usage"}, nil, "files beside a database that it knows as records"},
	{"internal/netcut", nil, []string{"golang.org/x/sys/unix"}, "hosts and links for tests"},
	{"internal/pgtest", nil, []string{"github.com/jackc/pgx/v5"}, "PostgreSQL for tests"},
	{"store/pgstore", []string{"internal/fair", "store", "store/internal/checksum", "store/internal/clock", "store/internal/gather", "store/internal/quota"}, []string{"github.com/jackc/pgx/v5", "github.com/jackc/pgx/v5/pgconn", "github.com/jackc/pgx/v5/pgxpool"}, "one engine a folder; the one place that knows PostgreSQL"},
	{"store/archive", []string{"frame", "store"}, nil, "the file of an export, of any engine"},
	{"store/storetest", []string{"store", "store/archive", "internal/effort"}, []string{"github.com/google/go-cmp"}, "the contract as a test"},
	{"internal/masked", nil, nil, "secrets in the text of other programs, for all who pass it on"},
	{"internal/bridge/proc", []string{"internal/masked"}, []string{"golang.org/x/sys/unix"}, "process groups and pipes, for whatever is spoken through them"},
	{"internal/bridge/mcptest", []string{"internal/effort"}, nil, "a corpus for the tests of every bridge"},
	{"internal/bridge/upstream/upstreamtest", nil, nil, "answers for the tests of whoever asks HTTP servers"},
	{"internal/bridge/mcpstdio", []string{"internal/backoff", "internal/fair", "internal/memory", "internal/bridge/proc", "profiles", "profiles/mcpmap", "e1"}, nil, "MCP on standard streams: no SDK, no store, no transport"},
	{"internal/bridge/mcptools", []string{"profiles", "profiles/mcpmap", "profiles/tooldisc"}, nil, "an MCP client on top of the mapping: no SDK, no store, no transport"},
	{"internal/pipes", nil, nil, "a listener in memory, for HTTP servers that are played or tested"},
	{"internal/passing", []string{"frame", "internal/backoff", "internal/pipes", "profiles", "transport", "transport/tlsconn", "transport/quicconn"}, nil, "connections of peers, between processes of one endpoint"},
	{"internal/hosting", []string{"internal/bridge/proc", "internal/passing", "transport"}, nil, "programs of one process of an endpoint at another one"},
	{"internal/bridge/gate", nil, nil, "who calls over HTTP, for whatever is then done for them"},
	{"internal/bridge/mcpfront", []string{"internal/backoff", "internal/fair", "internal/bridge/mcpheader", "internal/memory", "profiles", "profiles/mcpmap", "profiles/obs", "profiles/rpc", "e1"}, nil, "HTTP callers to MCP servers: no SDK, no store, no transport"},
	{"internal/bridge/mcpclient", []string{"internal/backoff", "profiles", "profiles/mcpmap", "profiles/rpc"}, nil, "an MCP client, over as many connections as it takes: no SDK, no store, no transport"},
	{"internal/bridge/a2afront", []string{"internal/backoff", "internal/bridge/a2abinding", "internal/memory", "profiles", "profiles/a2a", "profiles/agdisc", "profiles/mcpmap", "e1"}, nil, "A2A clients over HTTP: no SDK, no store, no transport; mcpmap is what reads JSON-RPC"},
	{"internal/bridge/sdlfront", []string{"frame", "internal/fair", "internal/memory", "profiles", "profiles/sdl", "sdl", "sdl/canonical"}, []string{"github.com/coder/websocket"}, "A2A-SDL without SWP: no SDK, no store, no transport"},
	{"internal/bridge/upstream", []string{"internal/memory", "profiles"}, nil, "HTTP servers that the configuration names, for whatever is posted to them; of profiles only the times of work"},
	{"internal/bridge/mcpheader", []string{"internal/bridge/upstream", "profiles/mcpmap"}, nil, "the headers of MCP, for both of its ends"},
	{"internal/bridge/mcphttp", []string{"internal/backoff", "internal/fair", "internal/memory", "internal/bridge/mcpheader", "internal/bridge/upstream", "profiles", "profiles/mcpmap", "e1"}, nil, "MCP over Streamable HTTP: no SDK, no store, no transport"},
	{"internal/bridge/a2ajson", []string{"internal/jsonobject", "internal/bridge/a2abinding"}, nil, "the members of A2A that decide whose a task is"},
	{"internal/bridge/a2aowners", []string{"internal/jsonobject", "internal/bridge/a2abinding", "internal/bridge/a2ajson", "profiles/a2a", "store"}, nil, "the owners of tasks, for agents to which all callers look alike: of store only the results"},
	{"internal/bridge/a2ahttp", []string{"internal/backoff", "internal/jsonobject", "internal/memory", "internal/bridge/a2abinding", "internal/bridge/a2ajson", "internal/bridge/a2aowners", "internal/bridge/upstream", "profiles", "profiles/a2a", "profiles/agdisc"}, nil, "A2A 1.0 over HTTP: no SDK, no store, no transport"},
	{"internal/bridge/rpchttp", []string{"internal/fair", "internal/bridge/upstream", "profiles", "profiles/rpc"}, nil, "methods over HTTP: no SDK, no store, no transport"},
	{"internal/bridge/worker", []string{"internal/bridge/proc", "internal/bridge/upstream", "profiles", "profiles/a2a", "profiles/p1"}, nil, "tasks to commands and URLs: no store, no transport"},
	{"internal/bridge/schema", nil, []string{"github.com/santhosh-tekuri/jsonschema/v6"}, "the one place that knows the validator"},
	{"internal/bridge/*", []string{"profiles", "profiles/mcpmap", "profiles/a2a", "e1"}, nil, "the world outside, octet for octet: no SDK, no store, no transport"},
	{"sdk/*", []string{"..."}, []string{"github.com/modelcontextprotocol/go-sdk", "github.com/a2aproject/a2a-go"}, "the official SDKs decode and re-encode, so they stay out of everything that relays"},
	{"internal/agents/sdlagent", []string{"internal/backoff", "store", "internal/bridge/mcptools", "profiles", "profiles/*", "sdl", "sdl/*"}, nil, "between the language and an endpoint: no SDK, of store only the interfaces, no transport"},
	{"internal/agents/slipa2a", []string{"internal/jsonobject", "internal/bridge/a2abinding", "profiles/a2a", "slip/*"}, nil, "before any agent: no SDK, no store, no transport"},
	{"internal/agents/*", []string{"internal/jsonobject", "internal/bridge/a2abinding", "internal/bridge/a2aowners", "profiles/...", "transport/...", "e1"}, nil, "programs on top of the profiles; what they say as agents of A2A is said as the bridges say it"},

	{"conformance", []string{"..."}, []string{"github.com/quic-go/quic-go"}, "plays vectors through the real endpoint; its peer over QUIC breaks the rules, which a connection of quicconn never does"},
	{"conformance/...", []string{"..."}, nil, "plays vectors through the real endpoint; the runner of commands may import it, the product does not"},
	{"client/...", []string{"..."}, []string{"github.com/coder/websocket", "github.com/spf13/cobra", "golang.org/x/sys", "golang.org/x/term"}, "the commands of swp-client"},
	{"daemon/internal/boundlog", []string{"internal/plain"}, []string{"go.uber.org/zap"}, "log lines of bounded size and number"},
	{"daemon/internal/accesslog", []string{"daemon/internal/boundlog"}, []string{"go.uber.org/zap"}, "the lines of log.access"},
	{"daemon/internal/tracing", []string{"profiles", "profiles/obs", "transport/endpoint"}, []string{"go.opentelemetry.io/otel"}, "the one place that knows OpenTelemetry"},
	{"daemon/internal/part", []string{"daemon/internal/boundlog", "daemon/config", "internal/bridge/proc", "internal/fair", "internal/memory", "internal/plain", "profiles", "profiles/all", "transport", "transport/endpoint"}, []string{"go.uber.org/zap", "github.com/prometheus/client_golang"}, "what a part is; knows no part"},
	{"daemon/internal/health", []string{"daemon/internal/boundlog", "daemon/internal/part", "internal/backoff", "internal/disk", "internal/masked", "internal/plain"}, []string{"go.uber.org/zap", "github.com/prometheus/client_golang"}, "what is known of things behind the endpoint; knows none of them"},
	{"daemon/internal/guard", []string{"internal/causes", "transport/endpoint", "daemon/internal/boundlog", "daemon/config", "daemon/internal/part", "internal/access", "internal/fair", "internal/bridge/gate", "profiles", "profiles/all", "transport"}, []string{"go.uber.org/zap", "github.com/prometheus/client_golang"}, "who is let in and what they may do"},
	{"daemon/internal/identity", []string{"daemon/internal/health", "daemon/certinfo", "daemon/claims", "daemon/config", "daemon/devpki", "daemon/internal/boundlog", "daemon/internal/part", "internal/disk", "internal/plain", "internal/spiffe/*", "profiles", "profiles/all", "transport"}, []string{"go.uber.org/zap", "github.com/prometheus/client_golang"}, "certificates; knows nobody who shows them"},
	{"daemon/internal/operator", []string{"daemon/config", "daemon/internal/part", "internal/disk", "internal/access", "internal/bridge/gate", "profiles", "profiles/*", "transport/endpoint"}, []string{"go.uber.org/zap"}, "actions on stored data and sessions, for whom a token admits"},
	{"daemon/internal/history", []string{"daemon/internal/part", "internal/disk"}, []string{"go.uber.org/zap", "github.com/prometheus/client_golang/prometheus", "github.com/prometheus/client_model/go"}, "the last 24 hours of metrics that it is given"},
	{"daemon/internal/page", []string{"daemon/internal/history", "daemon/internal/operator", "internal/access", "internal/audit", "transport/endpoint"}, []string{"github.com/prometheus/client_golang/prometheus", "github.com/prometheus/client_model/go"}, "a view of sessions, metrics and records, which it is given"},
	{"daemon/internal/telemetry", []string{"daemon/internal/health", "daemon/internal/accesslog", "daemon/internal/boundlog", "daemon/config", "daemon/internal/history", "daemon/internal/page", "daemon/internal/tracing", "daemon/internal/guard", "daemon/internal/part", "profiles", "transport", "transport/endpoint"}, []string{"go.uber.org/zap", "github.com/prometheus/client_golang"}, "what is reported, by whomever"},
	{"daemon/internal/trail", []string{"daemon/internal/health", "daemon/internal/boundlog", "daemon/config", "daemon/internal/part", "daemon/internal/telemetry", "e1", "internal/audit", "internal/receipts", "profiles", "profiles/all", "profiles/rpc", "transport/endpoint"}, []string{"go.uber.org/zap", "github.com/prometheus/client_golang"}, "the one part that writes records"},
	{"daemon/internal/storage", []string{"daemon/internal/health", "daemon/claims", "daemon/internal/boundlog", "daemon/config", "daemon/internal/operator", "daemon/internal/part", "daemon/internal/telemetry", "e1", "internal/bridge/a2aowners", "internal/disk", "profiles", "profiles/a2a", "profiles/all", "profiles/artifact", "profiles/events", "profiles/relay", "store", "store/*", "transport/endpoint"}, []string{"go.uber.org/zap", "github.com/prometheus/client_golang"}, "the one part that knows the engines of the store, and moves their directories"},
	{"daemon/internal/entrances", []string{"internal/causes", "daemon/config", "daemon/internal/boundlog", "daemon/internal/part", "internal/bridge/proc", "internal/bridge/worker", "internal/disk", "internal/hosting", "internal/memory", "internal/passing", "internal/plain", "internal/socket", "internal/strangers", "profiles", "store/pgstore", "transport", "transport/*"}, []string{"go.uber.org/zap", "github.com/prometheus/client_golang", "golang.org/x/sys/unix"}, "connections, whoever is served over them"},
	{"daemon/internal/served", []string{"daemon/internal/boundlog", "daemon/config", "daemon/internal/part", "internal/access/token", "internal/claimed", "internal/bridge/a2abinding", "profiles", "profiles/*"}, []string{"go.uber.org/zap", "github.com/prometheus/client_golang"}, "the profiles; they have what is behind them from the other parts"},
	{"daemon/internal/mcpservers", []string{"daemon/internal/health", "daemon/internal/boundlog", "daemon/config", "daemon/internal/part", "internal/bridge/mcphttp", "internal/bridge/mcpstdio", "internal/bridge/mcptools", "internal/bridge/proc", "internal/fair", "internal/memory", "profiles", "profiles/all", "profiles/mcpmap", "profiles/tooldisc", "transport", "transport/endpoint"}, []string{"go.uber.org/zap", "github.com/prometheus/client_golang"}, "MCP servers, for whoever calls them"},
	{"daemon/internal/workers", []string{"daemon/internal/health", "daemon/internal/boundlog", "daemon/config", "daemon/internal/part", "daemon/internal/served", "daemon/internal/slip", "internal/bridge/a2ahttp", "internal/bridge/a2aowners", "internal/bridge/proc", "internal/bridge/schema", "internal/bridge/upstream", "internal/bridge/worker", "internal/memory", "profiles", "profiles/a2a", "profiles/agdisc", "profiles/all", "slip/ucr"}, []string{"go.uber.org/zap", "github.com/prometheus/client_golang"}, "tasks, for whoever sends them"},
	{"daemon/internal/rpcbackends", []string{"daemon/internal/health", "daemon/internal/boundlog", "daemon/config", "daemon/internal/part", "internal/bridge/rpchttp", "internal/bridge/upstream", "internal/fair", "internal/memory", "profiles/all", "profiles/rpc"}, []string{"go.uber.org/zap", "github.com/prometheus/client_golang"}, "methods, for whoever calls them"},
	{"daemon/internal/teams", []string{"daemon/internal/boundlog", "daemon/config", "daemon/internal/guard", "daemon/internal/part", "daemon/internal/served", "internal/agents/team", "internal/bridge/a2aowners", "profiles", "profiles/a2a", "profiles/agdisc", "profiles/all", "transport/endpoint"}, []string{"go.uber.org/zap", "github.com/prometheus/client_golang"}, "peers of this endpoint like others, but for their door"},
	{"daemon/internal/sdlserver", []string{"daemon/internal/boundlog", "daemon/config", "daemon/internal/entrances", "daemon/internal/identity", "daemon/internal/part", "daemon/internal/served", "e1", "internal/access", "internal/agents/sdlagent", "internal/bridge/sdlfront", "internal/memory", "internal/partner", "internal/sdlaudit", "profiles", "profiles/a2a", "profiles/all", "profiles/relay", "profiles/rpc", "profiles/sdl", "sdl", "sdl/*", "transport"}, []string{"go.uber.org/zap", "github.com/prometheus/client_golang"}, "the one part that speaks A2A-SDL, and has it passed on"},
	{"daemon/internal/slip", []string{"daemon/config", "daemon/internal/boundlog", "daemon/internal/part", "daemon/internal/served", "e1", "internal/access", "internal/agents/slipa2a", "internal/bridge/a2abinding", "internal/partner", "profiles", "profiles/a2a", "profiles/agdisc", "profiles/all", "profiles/rpc", "profiles/slip", "slip/*"}, []string{"go.uber.org/zap"}, "where messages of SLIP go, and which agents speak it over A2A"},
	{"daemon/internal/partners", []string{"internal/causes", "daemon/internal/health", "store", "daemon/internal/boundlog", "daemon/certinfo", "daemon/config", "daemon/internal/identity", "daemon/internal/part", "daemon/internal/served", "daemon/internal/telemetry", "internal/partner", "internal/receipts", "profiles", "profiles/*", "transport", "transport/*"}, []string{"go.uber.org/zap", "github.com/prometheus/client_golang"}, "links, and what is behind them"},
	{"daemon/internal/fronts", []string{"daemon/internal/health", "daemon/certinfo", "daemon/config", "daemon/internal/entrances", "daemon/internal/guard", "daemon/internal/identity", "daemon/internal/part", "internal/bridge/a2abinding", "internal/bridge/a2afront", "internal/bridge/gate", "internal/bridge/mcpfront", "internal/bridge/sdlfront", "internal/memory", "profiles", "profiles/agdisc", "profiles/all", "profiles/obs", "profiles/policyhint", "profiles/rpc", "transport"}, []string{"go.uber.org/zap", "github.com/prometheus/client_golang"}, "HTTP callers, who are peers like others behind their door"},
	{"daemon/internal/*", nil, nil, "a part says above what it may import, other parts among it"},
	{"daemon/claims", []string{"transport"}, nil, "whose name is whose, for endpoints and for the commands that add partners"},
	{"daemon/invitation", []string{"daemon/certinfo", "daemon/config", "transport"}, nil, "a file between two operators, for the command line and whoever embeds swpd"},
	{"daemon/check", []string{"daemon/certinfo", "daemon/claims", "daemon/config", "daemon/devpki", "daemon/internal/*", "internal/access", "internal/bridge/a2abinding", "internal/bridge/gate", "internal/disk", "internal/plain", "profiles", "profiles/*", "sdl", "slip/ucr", "transport"}, []string{"go.uber.org/zap"}, "reads what a configuration names, as the parts do, and serves nothing"},
	{"daemon", []string{"daemon/internal/boundlog", "daemon/config", "daemon/internal/*", "profiles", "profiles/rpc"}, []string{"go.uber.org/zap", "github.com/prometheus/client_golang"}, "makes the parts and runs them; what they do is their own affair"},
	{"daemon/...", []string{"..."}, []string{
		"go.uber.org/zap", "github.com/prometheus/client_golang", "go.yaml.in/yaml/v3", "golang.org/x/sys", "golang.org/x/sync",
	}, "configuration, logs and certificates, for the daemon and its parts"},
	{"test/cluster/...", []string{"..."}, []string{"github.com/modelcontextprotocol/go-sdk"}, "several swpd, and those who work with them"},
	{"test/stranger", nil, nil, "a peer written from the documents alone"},
	{"examples/...", []string{"..."}, []string{"github.com/modelcontextprotocol/go-sdk", "github.com/a2aproject/a2a-go"}, "programs written as others would"},
	{"cmd/internal/cli/clitest", []string{"cmd/internal/cli"}, []string{"github.com/rogpeppe/go-internal", "github.com/spf13/cobra"}, "programs in the process of their scripts, and the examples that users are shown"},
	{"cmd/...", []string{"..."}, []string{"github.com/coreos/go-systemd/v22", "github.com/spf13/cobra", "github.com/spf13/pflag", "go.uber.org/zap", "golang.org/x/term"}, "flags and wiring"},
}

// never holds against every rule above, but for packages within imports itself,
// and of test kits for each other.
var never = []struct{ packages, imports, why string }{
	{"...", "cmd/...", "a program is imported by nobody"},
	{"...", "profiles/profiletest", "test kits stay in tests"},
	{"...", "transport/transporttest", "test kits stay in tests"},
	{"...", "transport/endpoint/endpointtest", "test kits stay in tests"},
	{"...", "internal/spiffe/spiffetest", "test kits stay in tests"},
	{"...", "internal/bridge/upstream/upstreamtest", "test kits stay in tests"},
	{"...", "internal/bridge/mcptest", "test kits stay in tests"},
	{"...", "internal/effort", "test kits stay in tests"},
	{"...", "internal/netcut", "test kits stay in tests"},
	{"...", "internal/programs", "test kits stay in tests"},
	{"...", "proto/prototest", "test kits stay in tests"},
	{"daemon/...", "conformance/...", "the product does not contain its test"},
	{"client/...", "daemon/...", "the client is no server"},
	{"daemon/...", "client/...", "the server is no client"},
}

// load returns what each package of this module imports outside its tests, on
// any platform. It reads the files itself: go test then knows when a cached
// result no longer holds.
func load(t *testing.T) map[string][]string {
	t.Helper()
	imports := make(map[string][]string)
	err := filepath.WalkDir(".", func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			_, other := os.Stat(filepath.Join(file, "go.mod"))
			if file != "." && (entry.Name() == "testdata" || entry.Name()[0] == '.' || other == nil) {
				return fs.SkipDir
			}
			return nil
		case !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go"):
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(filepath.Dir(file))
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			imports[name] = append(imports[name], imported)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return imports
}

func matches(pattern, name string) bool {
	if above, ok := strings.CutSuffix(pattern, "..."); ok {
		return above == "" || name == strings.TrimSuffix(above, "/") || strings.HasPrefix(name, above)
	}
	ok, err := path.Match(pattern, name)
	return err == nil && ok
}

func ruleOf(name string) (rule, bool) {
	i := slices.IndexFunc(rules, func(r rule) bool { return matches(r.packages, name) })
	if i < 0 {
		return rule{}, false
	}
	return rules[i], true
}

func TestImportsGoOneWay(t *testing.T) {
	all := load(t)
	if len(all) < 10 {
		t.Errorf("only %d packages of this module were found", len(all))
	}
	for name, imports := range all {
		r, ok := ruleOf(name)
		if !ok {
			t.Errorf("%s has no rule: say in imports_test.go what it may import, and why", name)
			continue
		}
		for _, imported := range imports {
			if why := refused(r, name, imported); why != "" {
				t.Errorf("%s imports %s: %s", name, imported, why)
			}
		}
	}
}

// The daemon makes its parts, and little else: what it joins more packages for belongs into
// a part.
func TestDaemonImportsFewerThanTwentyPackages(t *testing.T) {
	ours := slices.DeleteFunc(slices.Clone(load(t)["daemon"]), func(imported string) bool { return !strings.HasPrefix(imported, module+"/") })
	slices.Sort(ours)
	if ours = slices.Compact(ours); len(ours) == 0 || len(ours) >= 20 {
		t.Errorf("package daemon imports %d packages of this module, want 1 to 19: %s", len(ours), strings.Join(ours, " "))
	}
}

// refused says why a package may not import another, or "".
func refused(r rule, name, imported string) string {
	if domain, _, _ := strings.Cut(imported, "/"); !strings.Contains(domain, ".") {
		return "" // the standard library
	}
	other, ours := strings.CutPrefix(imported, module+"/")
	if !ours {
		if slices.ContainsFunc(r.others, func(prefix string) bool { return imported == prefix || strings.HasPrefix(imported, prefix+"/") }) {
			return ""
		}
		return r.why
	}
	for _, n := range never {
		kits := strings.HasSuffix(name, "test") && (strings.HasSuffix(other, "test") || other == "internal/effort")
		if matches(n.packages, name) && matches(n.imports, other) && !matches(n.imports, name) && !kits {
			return n.why
		}
	}
	if slices.ContainsFunc(r.ours, func(pattern string) bool { return matches(pattern, other) }) {
		return ""
	}
	return r.why
}

func TestImportRulesRefuseWhatTheyShould(t *testing.T) {
	for _, test := range []struct {
		name, imported string
		ok             bool
	}{
		{"frame", module + "/e1", false},
		{"e1", "golang.org/x/sys/cpu", false},
		{"transport/tlsconn", "github.com/quic-go/quic-go", false},
		{"transport/quicconn", "github.com/quic-go/quic-go", true},
		{"transport/endpoint", module + "/profiles", true},
		{"transport/endpoint", module + "/profiles/rpc", false},
		{"transport/endpoint", "go.uber.org/zap", false},
		{"profiles/rpc", module + "/profiles/p1", true},
		{"profiles/rpc", module + "/proto", false},
		{"profiles/rpc", "google.golang.org/protobuf/proto", false},
		{"profiles/rpc", module + "/profiles/mcpmap", false},
		{"profiles/rpc", module + "/transport", false},
		{"profiles/rpc", module + "/profiles/profiletest", false},
		{"profiles/all", module + "/profiles/mcpmap", true},
		{"profiles/all", module + "/profiles/profiletest", false},
		{"internal/bridge/mcpstdio", module + "/store", false},
		{"internal/bridge/mcpstdio", "github.com/modelcontextprotocol/go-sdk/mcp", false},
		{"daemon", module + "/internal/bridge/mcpstdio", false},
		{"daemon", module + "/daemon/internal/mcpservers", true},
		{"daemon/internal/mcpservers", module + "/internal/bridge/mcpstdio", true},
		{"daemon/internal/mcpservers", module + "/daemon/internal/workers", false},
		{"daemon/internal/anything", module + "/daemon/internal/part", false},
		{"daemon", module + "/conformance", false},
		{"daemon", module + "/cmd/swpd", false},
	} {
		r, ok := ruleOf(test.name)
		if !ok {
			t.Errorf("%s has no rule", test.name)
			continue
		}
		if why := refused(r, test.name, test.imported); (why == "") != test.ok {
			t.Errorf("%s imports %s: %q, want allowed %v", test.name, test.imported, why, test.ok)
		}
	}
}

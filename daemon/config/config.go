// Package config reads the configuration of swpd: a YAML file, overridden by
// environment variables that start with SWPD_.
//
// It is strict. An unknown key, a repeated key, a value of the wrong kind and a
// contradiction between keys are Problems. A Problem names the file, the line and the
// key, and says what to do. All problems are reported at once.
//
// docs/configuration.md describes every key.
package config

import (
	"os"
	"path/filepath"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/transport"
)

// Config is the configuration of one swpd. Paths are absolute after Load.
type Config struct {
	Identity   Identity   `yaml:"identity"`
	Trust      Trust      `yaml:"trust"`
	Endpoint   Endpoint   `yaml:"endpoint"`
	Listeners  []Listener `yaml:"listeners"`
	Admin      Admin      `yaml:"admin"`
	Health     string     `yaml:"health"` // host:port, or "off"
	Metrics    Metrics    `yaml:"metrics"`
	Data       string     `yaml:"data"` // directory of the stored state
	Store      string     `yaml:"store" form:"store"`
	Durability string     `yaml:"durability" choice:"power,process"`
	Cluster    Cluster    `yaml:"cluster"`
	Quota      Quota      `yaml:"quota"`
	Access     Access     `yaml:"access"`
	Partners   Partners   `yaml:"partners"`
	HTTP       HTTP       `yaml:"http"`
	MCP        MCP        `yaml:"mcp"`
	A2A        A2A        `yaml:"a2a"`
	Teams      Teams      `yaml:"teams"`
	RPC        RPC        `yaml:"rpc"`
	Events     Events     `yaml:"events"`
	Artifact   Artifact   `yaml:"artifact"`
	Cred       Cred       `yaml:"cred"`
	State      State      `yaml:"state"`
	Relay      Relay      `yaml:"relay"`
	SDL        SDL        `yaml:"sdl"`
	SLIP       SLIP       `yaml:"slip"`
	AGDISC     AGDISC     `yaml:"agdisc"`
	TOOLDISC   TOOLDISC   `yaml:"tooldisc"`
	Telemetry  Telemetry  `yaml:"telemetry"`
	Freshness  Freshness  `yaml:"freshness"`
	Limits     Limits     `yaml:"limits"`
	Rate       Rate       `yaml:"rate"`
	Log        Log        `yaml:"log"`
	Audit      Audit      `yaml:"audit"`

	// Source is the file that was read; empty means the built-in configuration.
	Source string `yaml:"-"`

	// Profiles are the profiles of the program that embeds swpd. Rules can name them,
	// and the built-in ones.
	Profiles []*profiles.Profile `yaml:"-"`

	// Places are the places of keys, as file:line or the environment variable; see
	// Place.
	Places map[string]string `yaml:"-"`

	// PartnerFiles are the files of the partners in PartnersDir, by name.
	PartnerFiles map[string]string `yaml:"-"`
}

// Identity is the certificate of this swpd: PEM files, or an SVID of the SPIFFE Workload API.
// If all is empty swpd uses a development identity in Data.
type Identity struct {
	Cert string `yaml:"cert"`
	Key  string `yaml:"key"`

	SPIFFE   string `yaml:"spiffe"`    // address of the Workload API, as for spiffe.Socket
	SPIFFEID string `yaml:"spiffe_id"` // of the SVID, if there are several
	Hint     string `yaml:"hint"`      // the same
}

// Endpoint describes this swpd to its peers.
type Endpoint struct {
	Hints Hints `yaml:"hints"` // of all that it does itself, without a server, a worker or a partner
}

// Trust are the authorities of peers.
type Trust struct {
	CA  []string `yaml:"ca"`  // PEM bundles
	CRL []string `yaml:"crl"` // revocation lists of these authorities
}

// Listener is an address that peers connect to.
type Listener struct {
	Address     Address `yaml:"address"`
	ErrorFrames bool    `yaml:"error_frames"`
}

// Address is a transport.Addr in the form of the configuration.
type Address struct{ transport.Addr }

// Freshness is the policy for the timestamps of messages.
type Freshness struct {
	Owner    string        `yaml:"owner" choice:"off,core,s1"`
	Skew     time.Duration `yaml:"skew"`
	Required bool          `yaml:"required"`
}

// Limits bounds the memory and the work that peers can cause.
type Limits struct {
	FrameRate  int `yaml:"frame_rate"`  // frames per second and connection; over it reading pauses; 0 = off
	FrameBurst int `yaml:"frame_burst"` // 0 = twice frame_rate

	Connections            int `yaml:"connections"`
	ConnectionsPerIdentity int `yaml:"connections_per_identity"`
	InFlight               int `yaml:"in_flight"`
	LongExchanges          int `yaml:"long_exchanges"`
	Handlers               int `yaml:"handlers"`

	FrameBytes           Size `yaml:"frame_bytes"`
	PayloadBytes         Size `yaml:"payload_bytes"`
	ExtensionBytes       Size `yaml:"extension_bytes"`
	InFlightBytes        Size `yaml:"in_flight_bytes"`
	InFlightBytesPerConn Size `yaml:"in_flight_bytes_per_connection"`
	OutboundBytes        Size `yaml:"outbound_bytes_per_connection"`
	OutboundFrames       int  `yaml:"outbound_frames_per_connection"`

	Proxies []string `yaml:"proxies"` // addresses and networks, such as 10.1.0.0/16, that many peers share

	ErrorBudget int `yaml:"error_budget"`
	PaceBudget  int `yaml:"pace_budget"`

	ReplayWindow time.Duration `yaml:"replay_window"` // how long a msg_id of a connection stays in use after its exchange; 0 = off

	Idle    time.Duration `yaml:"idle"`
	Body    time.Duration `yaml:"body"`
	Write   time.Duration `yaml:"write"`
	Handler time.Duration `yaml:"handler"`
}

// Rate is a fixed window. Frames above its limit are refused.
type Rate struct {
	Frames   int `yaml:"frames"` // 0 = off
	WindowMS int `yaml:"window_ms"`
}

// Log configures the log, which is written to standard error.
type Log struct {
	Level  string `yaml:"level" choice:"debug,info,warn,error"`
	Format string `yaml:"format" choice:"json,text"`

	// Access selects the exchanges that get a line. AccessFile is the file of these
	// lines; if it is empty they are part of the log.
	Access     string `yaml:"access" choice:"off,denied,all"`
	AccessFile string `yaml:"access_file"`
}

// Values of Log.
const (
	LogText = "text"

	AccessOff    = "off"
	AccessDenied = "denied"
	AccessAll    = "all"
)

// Default returns the defaults: TLS and QUIC on loopback, the built-in RPC methods, a
// development identity, and no other access.
func Default() *Config {
	return &Config{
		Listeners: []Listener{
			{Address: Address{transport.Addr{Transport: "tls", Host: "127.0.0.1", Port: transport.DefaultPort}}},
			{Address: Address{transport.Addr{Transport: "quic", Host: "127.0.0.1", Port: transport.DefaultPort}}},
		},
		Admin:      Admin{Address: "127.0.0.1:7780"},
		Health:     AdminOff,
		Metrics:    Metrics{Address: AdminOff},
		Data:       DataDir(),
		Store:      StoreEmbedded,
		Durability: string(store.Power),
		Quota:      Quota{Total: 10 << 30, PerIdentity: 1 << 30},
		HTTP:       defaultHTTP(),
		A2A:        A2A{Retention: 24 * time.Hour, Deadline: time.Hour, Abandoned: time.Minute},
		RPC:        RPC{ReplayWindow: 24 * time.Hour},
		Events:     Events{Retention: 24 * time.Hour},
		Artifact:   defaultArtifact(),
		Cred:       defaultCred(),
		Relay:      defaultRelay(),
		SDL:        defaultSDL(),
		TOOLDISC:   TOOLDISC{Refresh: 5 * time.Minute, Idle: 10 * time.Minute},
		Freshness:  Freshness{Owner: "off", Skew: 5 * time.Minute},
		Limits: Limits{
			FrameRate:              20_000,
			FrameBurst:             0,
			Connections:            16_384,
			ConnectionsPerIdentity: 256,
			InFlight:               128,
			LongExchanges:          1024,
			Handlers:               4096,
			FrameBytes:             8 << 20,
			PayloadBytes:           8<<20 - 8<<10,
			ExtensionBytes:         4096,
			InFlightBytes:          256 << 20,
			InFlightBytesPerConn:   16 << 20,
			OutboundBytes:          16 << 20,
			OutboundFrames:         1024,
			ErrorBudget:            16,
			PaceBudget:             1024,
			Idle:                   10 * time.Minute,
			Body:                   5 * time.Second,
			Write:                  10 * time.Second,
			Handler:                30 * time.Second,
		},
		Rate: Rate{WindowMS: 1000},
		Log:  Log{Level: "info", Format: "json", Access: AccessOff},

		Audit: Audit{Sync: AuditSyncSecond, Size: 1 << 30},
	}
}

// DataDir is the default of data: $XDG_DATA_HOME/swpd, else ~/.local/share/swpd, else
// .swpd in the working directory.
func DataDir() string {
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "swpd")
	}
	if home, err := os.UserHomeDir(); err == nil {
		return filepath.Join(home, ".local", "share", "swpd")
	}
	if dir, err := filepath.Abs(".swpd"); err == nil {
		return dir
	}
	return ".swpd"
}

// Development reports whether swpd uses a development identity, because no identity is
// configured.
func (c *Config) Development() bool { return c.Identity == Identity{} }

// IdentityDir is the directory of the development identity.
func (c *Config) IdentityDir() string { return filepath.Join(c.Data, "pki") }

// Effective returns a copy with the values in force: keys that are not set and depend on
// other keys have their derived values.
func (c *Config) Effective() *Config {
	e := *c
	e.Limits.FrameBurst, e.Relay.MaxPayload = c.Burst(), c.RelayPayload()
	e.Artifact.MaxSize, e.Artifact.Chunk = c.ArtifactSize(), c.ArtifactChunk()
	e.SDL.Limits.Bytes, e.Audit.Exchanges = c.SDLBytes(), c.AuditExchanges()
	return &e
}

// Burst is limits.frame_burst, or twice limits.frame_rate if it is not set.
func (c *Config) Burst() int {
	if c.Limits.FrameBurst > 0 {
		return c.Limits.FrameBurst
	}
	return 2 * c.Limits.FrameRate
}

// Package hosting runs programs of one process of an endpoint at another one.
//
// Start asks a Host in another process for a program, over a separate connection. The first stream of the
// connection carries standard input and standard output. The host opens two more streams: one tells the id
// of the process and how it ended, and takes the request to stop; the other carries standard error. The
// program ends with the connection.
//
// The request names an entry of the configuration. The host runs the program of this entry in its
// configuration, if both processes have the same program there. It accepts additional variables of the
// environment only under the names that the entry permits.
package hosting

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/slimwire/swp/internal/bridge/proc"
)

// request asks for a program.
type request struct {
	Entry  string   `json:"entry"`         // of the configuration
	Digest string   `json:"digest"`        // of the program
	Env    []string `json:"env,omitempty"` // additional entries of the environment
}

// The second stream has one started and one ended in one direction, and at most one stop in the other, as
// JSON.
type (
	started struct {
		PID int `json:"pid"`
	}
	ended struct {
		Status string `json:"status,omitempty"` // empty: exit status 0
	}
	stop struct {
		Grace time.Duration `json:"grace"`
	}
)

// maxControl is the limit of the second stream in one direction, in octets.
const maxControl = 4 << 10

// digest identifies a program. PATH is not part of it: each process has its own.
func digest(c *proc.Config) string {
	text, err := json.Marshal([]any{c.Command, c.Args, c.Env, c.Dir})
	if err != nil {
		panic(err) // strings have a form in JSON
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

package command

import (
	"net/http"
	"os"

	"github.com/slimwire/swp/cmd/internal/cli"
	"github.com/slimwire/swp/daemon"
	"github.com/slimwire/swp/internal/plain"
)

// basis is the configuration by which a command answers.
type basis struct {
	Config string `json:"config"`                 // file, empty for the built-in one
	Other  string `json:"other_config,omitempty"` // the file that may be meant instead of the built-in one

	whose string // whose file Other is
}

// defaultFile is the file that swpd init writes.
const defaultFile = "swpd.yaml"

// basisOf returns the basis of the answers by a file. Without a file, Other is the file of the swpd
// that runs here, or else the file in the working directory.
func basisOf(file string) basis {
	b := basis{Config: file}
	if file != "" {
		return b
	}
	if s := runsWith(""); s != nil && s.Config != "" {
		b.Other, b.whose = s.Config, "the swpd that runs here has another"
		return b
	}
	if _, err := os.Stat(defaultFile); err == nil {
		b.Other, b.whose = defaultFile, "this directory has another"
	}
	return b
}

// runningBasis returns the basis of answers about the swpd that runs here. An answer by another
// configuration would be wrong.
func runningBasis() (basis, error) {
	for _, file := range []string{"", defaultFile} {
		if s := runsWith(file); s != nil {
			return basis{Config: s.Config}, nil
		}
	}
	return basis{}, cli.Usagef("explain: no swpd runs with the default data directory or with ./%s, so the rules that denied are not known: name the configuration of the swpd that wrote the lines with --config FILE, or in SWPD_CONFIG", defaultFile)
}

// runsWith returns the status of the swpd that runs with the data directory of a configuration, or nil.
func runsWith(file string) *daemon.Status {
	at, err := new(server).find(file)
	if err != nil {
		return nil
	}
	s := new(daemon.Status)
	if at.ask(http.MethodGet, "/status", s) != nil {
		return nil
	}
	return s
}

// String returns the basis with the option for the other file.
func (b basis) String() string {
	switch {
	case b.Config != "":
		return b.Config
	case b.Other == "":
		return "built in"
	}
	return "built in; " + b.whose + ": add --config " + plain.Word(b.Other)
}

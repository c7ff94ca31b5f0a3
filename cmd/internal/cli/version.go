package cli

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/internal/claimed"
)

// release is the version that is being worked on.
const release = "0.6.0-dev"

// Version returns the version of this program: told, if not empty; the module's,
// if released; or else release with the revision of the build.
func Version(told string) string {
	if told != "" {
		return told
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return release
	}
	return versionOf(info)
}

// revisionDigits is how much of a revision is part of a version.
const revisionDigits = 12

func versionOf(info *debug.BuildInfo) string {
	if v, ok := strings.CutPrefix(info.Main.Version, "v"); ok && !strings.ContainsAny(v, "-+") {
		return v
	}
	build := revision(info)
	if len(build) > revisionDigits {
		build = build[:revisionDigits]
	}
	if build == "" {
		return release
	}
	if setting(info, "vcs.modified") == "true" {
		build += ".modified"
	}
	return release + "+" + build
}

func revision(info *debug.BuildInfo) string { return setting(info, "vcs.revision") }

func setting(info *debug.BuildInfo, key string) string {
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}

func versionLine(name, version string) string {
	return fmt.Sprintf("%s %s %s %s/%s\n", name, version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func newVersion(root *cobra.Command, version string) *cobra.Command {
	name := root.Name()
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version and the claimed conformance classes",
		Example: "  " + name + " version\n  " + name + " version --json",
	}
	if root.PersistentFlags().Lookup("json") == nil {
		cmd.Flags().Bool("json", false, "print JSON")
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if asJSON, err := cmd.Flags().GetBool("json"); err != nil || !asJSON {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%sconformance %s\n", versionLine(name, version), strings.Join(claimed.Classes(), ", "))
			return err
		}
		v := struct {
			Version  string `json:"version"`
			Revision string `json:"revision,omitempty"`
			Go       string `json:"go"`
			Platform string `json:"platform"`

			Conformance []string `json:"conformance"`
		}{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Conformance: claimed.Classes()}
		if info, ok := debug.ReadBuildInfo(); ok {
			v.Revision = revision(info)
		}
		return json.NewEncoder(cmd.OutOrStdout()).Encode(v)
	}
	return cmd
}

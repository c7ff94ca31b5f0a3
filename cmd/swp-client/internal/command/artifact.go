package command

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/cmd/internal/cli"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/profiles/rpc"
)

func newArtifact(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "artifact",
		Short: "Store large files at an endpoint, and download them",
		Long: `Store large files at an endpoint, and download them. An artifact is octets with an id;
both sides verify its SHA-256. An interrupted transfer continues where it stopped: by
itself after a lost connection, and with the same command after the client was
stopped.`,
		Example: `  swp-client artifact put swp+tls://127.0.0.1:7777 model.bin
  tar c src | swp-client artifact put swp+tls://127.0.0.1:7777 - --id src.tar
  swp-client artifact get swp+quic://127.0.0.1:7777 src.tar - | tar t
  swp-client artifact ls swp+tls://127.0.0.1:7777`,
	}
	cmd.AddCommand(newArtifactPut(f), newArtifactGet(f), newArtifactList(f), newArtifactForget(f))
	return cmd
}

// artifactAdvice says more about what endpoints refuse.
func (f *flags) artifactAdvice(err error) error {
	code := answered(err, artifact.Name).Code
	failed := (*rpc.Error)(nil)
	switch {
	case errors.Is(err, client.ErrNoDigest):
		return advise(err, "The artifact is there, and its digest is not listed to this identity. Name the digest with --sha256, or go without one with --unverified.")
	case errors.Is(err, client.ErrReplaces):
		return advise(err, "Choose another --id, or replace it with --replace.")
	case code == artifact.CodeConflict:
		return advise(err, "An upload of other octets under this id was not completed. End it with: "+f.commandLine("artifact", "forget", f.address(), f.asked))
	case code == artifact.CodeNotFound && f.running.Name() == "get":
		return advise(err, "There is no such artifact, or this identity may not get it.")
	case code == artifact.CodeQuota:
		at, whose := f.keeper(err)
		return advise(err, "Make room: "+f.commandLine("artifact", "ls", at)+" lists what is there, and artifact forget deletes it. Or have artifact.quota of "+whose+" raised.")
	case errors.As(err, &failed) && failed.Code == rpc.CodeUnknownMethod:
		return advise(err, "That endpoint has no such method; it may keep artifacts all the same.")
	}
	return err
}

// keeper returns the address of the endpoint that has refused to store an artifact, and words for that endpoint. The
// address of the command line may name the partners on the way, or the artifact_id its partner.
func (f *flags) keeper(err error) (address, whose string) {
	_, by, _ := client.Refusal(err)
	address, whose = f.address(), cmp.Or(visible(by.String()), "the endpoint")
	if addr, target, _ := split(address); target == "" && by.Partner != "" {
		address = addr.String() + "/" + by.Partner
	}
	return address, whose
}

// transfer runs a transfer with its progress bar on a terminal, and reports
// errors on the way.
func (f *flags) transfer(address, verb string, patience time.Duration, run func(t *client.Transfer) error) error {
	progress := client.NewProgress(f.errOut, verb)
	defer progress.Stop()
	b := bar{verb: verb, began: time.Now()}
	return f.artifactAdvice(run(&client.Transfer{
		Connect:  func(ctx context.Context) (*client.Client, error) { return f.dial(ctx, address) },
		Patience: patience,
		Progress: func(done, total uint64) { progress.Say(b.text(done, total, time.Now())) },
		Lost: func(err error, pause time.Duration) {
			_ = progress.Print("", func() error {
				f.warnf("%v; again in %v", err, pause.Round(time.Millisecond))
				return nil
			})
		},
	}))
}

func patienceFlag(cmd *cobra.Command) *time.Duration {
	return cmd.Flags().Duration("patience", 2*time.Minute, "how long to retry without progress")
}

// printedArtifact is an artifact as JSON.
type printedArtifact struct {
	ID        string     `json:"artifact_id"`
	Size      uint64     `json:"size"`
	SHA256    string     `json:"sha256"`
	Completed *time.Time `json:"completed,omitempty"`
	Own       *bool      `json:"own,omitempty"`
	Metadata  any        `json:"metadata,omitempty"`
}

func newArtifactList(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ls ADDR[/PARTNER] [ARTIFACT_ID]",
		Short: "List artifacts, or one of them",
		Long: `List the artifacts that this identity may see: its own, and artifacts of others that
the access rules let it list. A line each: size in octets, time of completion,
SHA-256, and id; * marks this identity's own.`,
		Example: `  swp-client artifact ls swp+tls://127.0.0.1:7777
  swp-client artifact ls swp+tls://127.0.0.1:7777 --json | jq -r .artifact_id`,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var in artifact.ListParams
		if len(args) == 2 {
			in.ArtifactID = args[1]
		}
		return f.on(cmd.Context(), args[0], func(ctx context.Context, c *client.Client) error {
			var failed error
			n := 0
			err := c.ListArtifacts(ctx, in, func(e *artifact.Entry) bool {
				n++
				failed = f.printArtifact(e)
				return failed == nil
			})
			if err == nil && in.ArtifactID != "" && n == 0 {
				err = fmt.Errorf("no artifact %q is listed", in.ArtifactID)
			}
			return f.listed(errors.Join(f.artifactAdvice(err), failed), n, "artifact")
		})
	}
	return cmd
}

func (f *flags) printArtifact(e *artifact.Entry) error {
	if f.asJSON {
		p := printedArtifact{ID: e.ArtifactID, Size: e.Size, SHA256: e.SHA256, Completed: &e.Completed, Own: &e.Own}
		if len(e.Metadata) > 0 {
			p.Metadata = readable(e.Metadata)
		}
		return f.printJSON(p)
	}
	mark := " "
	if e.Own {
		mark = "*"
	}
	f.printf("%12d %s %s %s %s\n", e.Size, e.Completed.Local().Format("2006-01-02 15:04:05"), cli.Field(e.SHA256), mark, cli.Field(e.ArtifactID))
	return nil
}

func newArtifactForget(f *flags) *cobra.Command {
	return &cobra.Command{
		Use:   "forget ADDR[/PARTNER] ARTIFACT_ID",
		Short: "Delete an artifact of this identity",
		Long: `Delete an artifact of this identity, and its upload if that is not complete, and print
what was deleted. If there is neither, the exit code is 1.`,
		Example: `  swp-client artifact forget swp+tls://127.0.0.1:7777 src.tar
  swp-client artifact forget swp+tls://127.0.0.1:7777/acme src.tar`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.on(cmd.Context(), args[0], func(ctx context.Context, c *client.Client) error {
				was, err := c.ForgetArtifact(ctx, args[1])
				switch {
				case err != nil:
					return f.artifactAdvice(err)
				case was == (artifact.Forgotten{}):
					return fmt.Errorf("this identity has neither an artifact nor an upload %q there; nothing was deleted", args[1])
				case f.asJSON:
					return f.printJSON(printedForgotten{args[1], was})
				}
				if was.Artifact {
					f.printf("deleted %s\n", visible(args[1]))
				}
				if was.Upload {
					f.printf("deleted the incomplete upload of %s\n", visible(args[1]))
				}
				return nil
			})
		},
	}
}

// printedForgotten is what was deleted, as JSON.
type printedForgotten struct {
	ID string `json:"forgotten"`
	artifact.Forgotten
}

// digest reads a SHA-256 from the command line.
func digest(text string) ([]byte, error) {
	if text == "" {
		return nil, nil
	}
	sum, err := hex.DecodeString(text)
	if err != nil || len(sum) != 32 {
		return nil, &usageError{fmt.Sprintf("--sha256 %.80q: want 64 hexadecimal digits", text)}
	}
	return sum, nil
}

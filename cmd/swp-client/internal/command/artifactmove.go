package command

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/cmd/internal/cli"
	"github.com/slimwire/swp/internal/plain"
	"github.com/slimwire/swp/profiles/artifact"
)

// contentID is the artifact_id of octets that are given no other.
func contentID(sum []byte) string { return "sha256:" + hex.EncodeToString(sum) }

func newArtifactPut(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "put ADDR[/PARTNER] FILE|-",
		Short: "Upload a file and print its id",
		Long: `Upload a file, or standard input, wait until the endpoint has verified and stored it,
and print its id: that of --id, or one made from its SHA-256. An interrupted upload
continues when the same file is put again.

An artifact of this identity that is stored under the id with other octets or metadata
is not replaced without --replace. With it the new octets take its place once they are
complete.

The digest is sent before the octets. So the file is read twice, and standard input is
first copied to a temporary file.`,
		Example: `  swp-client artifact put swp+tls://127.0.0.1:7777 model.bin --meta application/octet-stream
  pg_dump db | swp-client artifact put swp+tls://127.0.0.1:7777 - --id backups/db`,
	}
	id := cmd.Flags().String("id", "", "`artifact_id` (default: sha256: and the digest)")
	meta := cmd.Flags().String("meta", "", "metadata: `text`, or @FILE")
	replace := cmd.Flags().Bool("replace", false, "replace an artifact of this identity that has the id")
	patience := patienceFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *meta == "-" {
			return &usageError{"--meta -: standard input is for the octets"}
		}
		metadata, err := f.readInput(*meta)
		if err != nil {
			return err
		}
		file, err := f.source(args[1])
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }()
		u := artifact.Upload{ArtifactID: *id, Metadata: metadata, Octets: file}
		if u.Size, u.Hash, err = measure(file); err != nil {
			return err
		}
		if u.ArtifactID == "" {
			u.ArtifactID = contentID(u.Hash[:])
		}
		f.asked = u.ArtifactID
		err = f.transfer(args[0], "uploading", *patience, func(t *client.Transfer) error {
			t.Keep = !*replace
			return t.Put(cmd.Context(), u)
		})
		if err != nil {
			return err
		}
		f.remarkLocal(cmd.Context(), args[0], "artifact", u.ArtifactID)
		if f.asJSON {
			return f.printJSON(printedArtifact{ID: u.ArtifactID, Size: u.Size, SHA256: hex.EncodeToString(u.Hash[:])})
		}
		f.printf("%s\n", u.ArtifactID)
		return nil
	}
	return cmd
}

// source opens what is put. Standard input becomes a file that is gone when it is
// closed.
func (f *flags) source(name string) (*os.File, error) {
	if name != "-" {
		return cli.Open(name)
	}
	file, err := os.CreateTemp("", "swp-client-*")
	if err != nil {
		return nil, err
	}
	if err = os.Remove(file.Name()); err == nil {
		_, err = io.Copy(file, f.in)
	}
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("standard input: %w", err)
	}
	return file, nil
}

// measure returns the size and the digest of a file.
func measure(file *os.File) (size uint64, sum [32]byte, err error) {
	info, err := file.Stat()
	if err != nil {
		return 0, sum, err
	}
	if info.IsDir() {
		return 0, sum, &usageError{fmt.Sprintf("%[1]s is a directory, and an artifact is one file; put each file, or an archive: tar c %[1]s | swp-client artifact put ADDR - --id ARTIFACT_ID", plain.Word(file.Name()))}
	}
	if !info.Mode().IsRegular() {
		return 0, sum, &usageError{fmt.Sprintf("%s is no file; standard input is taken from -", file.Name())}
	}
	h := sha256.New()
	n, err := io.Copy(h, io.NewSectionReader(file, 0, info.Size()))
	if err == nil && n != info.Size() {
		err = fmt.Errorf("%s was truncated while it was read", file.Name())
	}
	return uint64(n), [32]byte(h.Sum(nil)), err
}

func newArtifactGet(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get ADDR[/PARTNER] ARTIFACT_ID FILE|-",
		Short: "Download an artifact",
		Long: `Download an artifact into a file, or to standard output, and verify its SHA-256: that
of --sha256, else the one that the endpoint lists.

The file appears when it is complete. Until then FILE.part has the octets so far, and
FILE.part.json their metadata: the same command continues with them. A FILE that is there
already is not replaced without --replace. Standard output is verified only at the end;
check the exit code.`,
		Example: `  swp-client artifact get swp+tls://127.0.0.1:7777 backups/db db.sql
  swp-client artifact get swp+quic://127.0.0.1:7777 src.tar - | tar x`,
	}
	sum := cmd.Flags().String("sha256", "", "required SHA-256 `digest`, in hex")
	replace := cmd.Flags().Bool("replace", false, "replace a FILE that is there")
	unverified := cmd.Flags().Bool("unverified", false, "accept the octets if no digest is known")
	patience := patienceFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		want, err := digest(*sum)
		if err != nil {
			return err
		}
		if want != nil && *unverified {
			return &usageError{"--sha256 is verified and --unverified is not; keep one"}
		}
		if args[2] == "-" && f.asJSON {
			return &usageError{"--json describes the artifact on standard output, so the artifact cannot go there; name a FILE"}
		}
		if args[2] == "-" && *replace {
			return &usageError{"--replace is for a FILE, and standard output is none; leave it out"}
		}
		if _, err := os.Lstat(args[2]); err == nil && args[2] != "-" && !*replace {
			return &usageError{fmt.Sprintf("%s is there already: choose another FILE, or replace it with --replace", args[2])}
		}
		what := client.Fetch{ArtifactID: args[1], SHA256: want, Unverified: *unverified}
		var got *client.Fetched
		err = f.transfer(args[0], "downloading", *patience, func(t *client.Transfer) (err error) {
			if args[2] == "-" {
				got, err = t.GetTo(cmd.Context(), what, f.out)
				return err
			}
			got, err = t.GetFile(cmd.Context(), what, args[2])
			return err
		})
		if err != nil {
			return err
		}
		if f.asJSON {
			return f.printJSON(printedArtifact{ID: args[1], Size: got.Size, SHA256: hex.EncodeToString(got.SHA256)})
		}
		return nil
	}
	return cmd
}

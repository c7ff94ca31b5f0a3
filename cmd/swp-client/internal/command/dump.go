package command

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/cmd/internal/cli"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/all"
)

func newDump(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dump FILE|-",
		Short: "Show frames as JSON, offline",
		Long: `Read frames from a file, or from standard input, and print each as a JSON object:
indented, or one a line with --json. For an invalid frame the readable fields, the
offset and the violated rule are printed; the exit code is then 1.`,
		Example: `  swp-client dump capture.bin
  swp-client dump --json capture.bin | jq .msg_type
  echo 00000018 01 01 01 00 00 10 00112233445566778899aabbccddeeff 00 00 | swp-client dump --hex -`,
	}
	asHex := cmd.Flags().Bool("hex", false, "the input is in hexadecimal; white space is skipped")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		src := f.in
		if args[0] != "-" {
			file, err := cli.Open(args[0])
			if err != nil {
				return err
			}
			defer func() { _ = file.Close() }()
			src = file
		}
		if *asHex {
			src = hex.NewDecoder(&packed{src: src})
		}
		return f.dump(src)
	}
	return cmd
}

func (f *flags) dump(src io.Reader) error {
	known, err := profiles.NewRegistry(all.Tables()...)
	if err != nil {
		return err
	}
	enc := json.NewEncoder(f.out)
	enc.SetEscapeHTML(false)
	if !f.asJSON {
		enc.SetIndent("", "  ")
	}
	faults, err := client.Dump(src, func(frame *client.Frame) error { return enc.Encode(frame) },
		client.DumpOptions{Registry: known})
	if err != nil {
		return err
	}
	switch {
	case faults == 1:
		return errors.New("1 frame breaks a rule")
	case faults > 1:
		return fmt.Errorf("%d frames break a rule", faults)
	}
	return nil
}

// packed drops white space.
type packed struct{ src io.Reader }

func (p *packed) Read(b []byte) (int, error) {
	n, err := p.src.Read(b)
	kept := 0
	for _, c := range b[:n] {
		switch c {
		case ' ', '\t', '\r', '\n':
		default:
			b[kept] = c
			kept++
		}
	}
	return kept, err
}

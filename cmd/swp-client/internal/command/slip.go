package command

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/client/slipjson"
	"github.com/slimwire/swp/cmd/internal/cli"
	"github.com/slimwire/swp/slip/ucr"
)

func newSLIP(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "slip",
		Short: "Read, write, send and receive nSLIP and SLIP v1",
		Long: `Read and write the languages called SLIP, offline: nSLIP (@a3|f0|…#), SLIP v1
(SLIP v1 planner reviewer RequestReview …), and SLIP v1 in messages of A2A. Send messages
of the first two to agents, and receive them as an agent.`,
		Example: `  swp-client slip listen swp+tls://127.0.0.1:7777 reviewer
  swp-client slip send swp+tls://127.0.0.1:7777 'SLIP v1 planner reviewer RequestReview auth_module'
  echo 'SLIP v1 planner reviewer RequestReview auth_module' | swp-client slip decode
  swp-client slip decode --format nslip <log.txt | jq .message.act
  swp-client slip ucr anchors.json`,
	}
	cmd.AddCommand(newSLIPDecode(f), newSLIPEncode(f), newSLIPUCR(f), newSLIPImport(f), newSLIPNearest(f), newSLIPSend(f), newSLIPListen(f))
	return cmd
}

func newSLIPDecode(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "decode [FILE|-]",
		Short: "Show messages as JSON",
		Long: `Read one message from each line, including empty lines, and print a JSON object for
each: {"ok":true,"message":{…}}, or {"ok":false,"error":"…"} with the error class of the
specification. The exit code is 0 once all lines are read, also for invalid messages.
nSLIP above 4 KiB and SLIP v1 above 1 MiB are too_long; input that must be JSON and is
not, or is not UTF-8, is bad_json; a JSON value that is not a message of A2A is
bad_message.

With --jsonl each line is a JSON object with the message in the member wire, input or
message. For A2A the member may be the message as an object, and with --format a2a a line
without these members is the message itself.

The format auto takes "@" at the beginning or "#" at the end for nSLIP, "{" for A2A, and
everything else for SLIP v1; with --jsonl the member format has precedence.`,
		Example: `  echo '@a3|f0|c3|S0|d1|T1|gH|kg|q2|t"refactor_auth"#' | swp-client slip decode
  swp-client slip decode --format slip-v1 messages.txt | jq -r 'select(.ok | not) | .error'
  swp-client slip decode --jsonl --format a2a <messages.jsonl`,
	}
	o := addSLIPFlags(cmd)
	jsonl := cmd.Flags().Bool("jsonl", false, "each line is a JSON object with the member wire, input or message")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		codec, err := o.codec()
		if err != nil {
			return err
		}
		return f.eachLine(args, func(line []byte, tooLong bool) error {
			if tooLong {
				return f.printRefused("too_long")
			}
			read := codec.Decode
			if *jsonl {
				read = codec.DecodeRow
			}
			message, err := read(slipjson.Format(o.format), line)
			if err != nil {
				return f.printRefused(slipjson.ClassOf(err))
			}
			return f.printJSON(struct {
				OK      bool            `json:"ok"`
				Message json.RawMessage `json:"message"`
			}{true, message})
		})
	}
	return cmd
}

func (f *flags) printRefused(class string) error {
	return f.printJSON(struct {
		OK    bool   `json:"ok"`
		Error string `json:"error"`
	}{false, class})
}

func newSLIPEncode(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "encode [FILE|-]",
		Short: "Write messages given as JSON",
		Long: `The inverse of decode: read one JSON object from each line, as decode prints it or only
the message, and print the message in its strict form. For a message that cannot be
written an empty line is printed, with the error on standard error; the exit code is
then 1.

With --jsonl a JSON object is printed for each: {"ok":true,"wire":"…"}, or
{"ok":false,"error":"…"}.`,
		Example: `  swp-client slip decode <log.txt | jq -c 'select(.ok)' | swp-client slip encode
  echo '{"src":"planner","dst":"reviewer","anchor":{"mnemonic":"RequestReview"},"payload":[]}' | swp-client slip encode`,
	}
	o := addSLIPFlags(cmd)
	jsonl := cmd.Flags().Bool("jsonl", false, "print a JSON object for each message")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		codec, err := o.codec()
		if err != nil {
			return err
		}
		n, refused := 0, 0
		err = f.eachLine(args, func(line []byte, tooLong bool) error {
			n++
			wire, err := codec.Encode(slipjson.Format(o.format), line)
			if tooLong {
				err = &slipjson.Error{Class: "too_long", What: "the line"}
			}
			switch {
			case err == nil && *jsonl:
				return f.printJSON(struct {
					OK   bool   `json:"ok"`
					Wire string `json:"wire"`
				}{true, string(wire)})
			case err == nil:
				_, err = fmt.Fprintf(f.out, "%s\n", wire)
				return err
			}
			refused++
			if *jsonl {
				return f.printRefused(slipjson.ClassOf(err))
			}
			f.warnf("line %d: %v", n, err)
			_, err = fmt.Fprintln(f.out)
			return err
		})
		if err == nil && refused > 0 {
			return fmt.Errorf("%d of %d messages cannot be written", refused, n)
		}
		return err
	}
	return cmd
}

func newSLIPUCR(f *flags) *cobra.Command {
	return &cobra.Command{
		Use:   "ucr [FILE|-]",
		Short: "Print the hash of anchors",
		Long: `Print the ucrHash of the anchors in a file, by which two sides find out that they mean the
same by them: of all that it has, those of an installation too. A file has JSON objects
with the member anchors (index, mnemonic, canonical, coords); a hash is printed for each.
Without a file it is that of the core anchors of UCR ` + ucr.Version + `.`,
		Example: `  swp-client slip ucr
  swp-client slip ucr anchors.json`,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return f.printHash(ucr.Core())
			}
			src, err := f.open(args)
			if err != nil {
				return err
			}
			defer func() { _ = src.Close() }()
			n := 0
			for dec := json.NewDecoder(io.LimitReader(src, maxTables)); ; n++ {
				var table json.RawMessage
				if err := dec.Decode(&table); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					return fmt.Errorf("%s: %w", args[0], err)
				}
				anchors, err := ucr.Read(table)
				if err != nil {
					return fmt.Errorf("%s: %w", args[0], err)
				}
				if err := f.printHash(anchors); err != nil {
					return err
				}
			}
			if n == 0 {
				return fmt.Errorf("%s: no table", args[0])
			}
			return nil
		},
	}
}

// Bounds of the input, in octets.
const (
	maxSLIPLine = 9 << 20 // a message of A2A has at most 8 MiB
	maxTables   = 256 << 20
)

func (f *flags) printHash(anchors []ucr.Anchor) error {
	if f.asJSON {
		return f.printJSON(struct {
			UCRHash string `json:"ucrHash"`
			Anchors int    `json:"anchors"`
		}{ucr.Hash(anchors), len(anchors)})
	}
	_, err := fmt.Fprintln(f.out, ucr.Hash(anchors))
	return err
}

// slipFlags are those of decode and encode.
type slipFlags struct{ format, table string }

func addSLIPFlags(cmd *cobra.Command) *slipFlags {
	o := new(slipFlags)
	var formats []string
	for _, format := range slipjson.Formats() {
		formats = append(formats, string(format))
	}
	cli.Choice(cmd, &o.format, "format", string(slipjson.Auto), "language", formats...)
	cmd.Flags().StringVar(&o.table, "ucr", "", "`file` with the anchors of this installation")
	return o
}

func (o *slipFlags) codec() (*slipjson.Codec, error) {
	table, err := readTable(o.table)
	if err != nil {
		return nil, err
	}
	return slipjson.New(table)
}

// readTable reads the anchors of an installation; without a file they are the core.
func readTable(file string) (*ucr.Table, error) {
	if file == "" {
		return nil, nil
	}
	octets, err := cli.ReadFile(file)
	if err != nil {
		return nil, err
	}
	table, err := ucr.Load(octets)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return table, nil
}

// open opens the file that is named, standard input for none or "-".
func (f *flags) open(args []string) (io.ReadCloser, error) {
	if len(args) == 0 || args[0] == "-" {
		return io.NopCloser(f.in), nil
	}
	return cli.Open(args[0])
}

// eachLine calls each with the lines of a file, without their LF: windows valid until
// the next. Of a line above maxSLIPLine it is told without what it says.
func (f *flags) eachLine(args []string, each func(line []byte, tooLong bool) error) error {
	src, err := f.open(args)
	if err != nil {
		return err
	}
	defer func() { _ = src.Close() }()
	in := bufio.NewReaderSize(src, 64<<10)
	var line []byte
	for tooLong := false; ; {
		part, err := in.ReadSlice('\n')
		if len(line)+len(part) > maxSLIPLine {
			line, tooLong = line[:0], true
		} else if !tooLong {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && !errors.Is(err, io.EOF):
			return err
		case err != nil && len(line) == 0 && !tooLong: // what follows the last LF
			return nil
		}
		if n := len(line) - 1; err == nil && !tooLong {
			line = line[:n]
		}
		if failed := each(line, tooLong); failed != nil || err != nil {
			return failed
		}
		line, tooLong = line[:0], false
	}
}

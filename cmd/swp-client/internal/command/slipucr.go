package command

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/slip/ucr"
)

// tableOf returns the anchors of a file, the core without one.
func tableOf(file string) (*ucr.Table, error) {
	table, err := readTable(file)
	if err == nil && table == nil {
		table, err = ucr.NewTable()
	}
	return table, err
}

func newSLIPImport(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import FILE|-",
		Short: "Add the anchors of another installation",
		Long: `Add the anchors of another installation to those of this one (--ucr), and print the result,
for slip.ucr of swpd and the --ucr of these commands. Each new anchor gets the next free index
here. Anchors whose mnemonic is known are left out, and named on standard error; compare what
both sides mean by them. The core anchors of the file are not looked at.`,
		Example: `  swp-client slip import acme.json >anchors.json
  swp-client slip import --ucr anchors.json beta.json >more.json`,
	}
	file := cmd.Flags().String("ucr", "", "`file` with the anchors of this installation")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		table, err := tableOf(*file)
		if err != nil {
			return err
		}
		octets, err := f.readInput(inputOf(args[0]))
		if err != nil {
			return err
		}
		foreign, err := ucr.Read(octets)
		if err != nil {
			return fmt.Errorf("%s: %w", args[0], err)
		}
		next, skipped, err := table.Import(foreign)
		if err != nil {
			return err
		}
		for _, a := range skipped {
			own := "this installation has it already"
			if known, ok := next.Named(a.Mnemonic); ok && (known.Canonical != a.Canonical || known.Coords != a.Coords) {
				own = "here it means: " + known.Canonical
			}
			f.warnf("%s is left out; %s", a.Mnemonic, own)
		}
		text, err := next.Save()
		if err != nil {
			return err
		}
		_, err = f.out.Write(text)
		return err
	}
	return cmd
}

// inputOf is the argument of readInput for a file.
func inputOf(file string) string {
	if file == "-" {
		return file
	}
	return "@" + file
}

func newSLIPNearest(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "nearest ACTION,POLARITY,DOMAIN,URGENCY",
		Short: "Print the anchor that is nearest to coordinates",
		Long: `Print the mnemonic of the anchor with the smallest distance from coordinates: four numbers from
0 to 7, for action, polarity, domain and urgency. The distance is the sum of the differences. Of
several anchors it is the one with the lowest index. With --json the whole anchor is printed, and
its distance.`,
		Example: `  swp-client slip nearest 3,4,3,3
  swp-client slip nearest --ucr anchors.json --json 1,1,6,5`,
	}
	file := cmd.Flags().String("ucr", "", "`file` with the anchors of this installation")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		at, err := readCoords(args[0])
		if err != nil {
			return err
		}
		table, err := tableOf(*file)
		if err != nil {
			return err
		}
		a := table.Nearest(at)
		if f.asJSON {
			return f.printJSON(struct {
				Index     uint16     `json:"index"`
				Mnemonic  string     `json:"mnemonic"`
				Canonical string     `json:"canonical"`
				Coords    ucr.Coords `json:"coords"`
				Distance  int        `json:"distance"`
			}{a.Index, a.Mnemonic, a.Canonical, a.Coords, a.Coords.Distance(at)})
		}
		f.printf("%s\n", a.Mnemonic)
		return nil
	}
	return cmd
}

// readCoords reads coordinates as four numbers with commas.
func readCoords(text string) (at ucr.Coords, err error) {
	parts := strings.Split(text, ",")
	if len(parts) != len(at) {
		return at, &usageError{fmt.Sprintf("%.40q: want four numbers from 0 to %d, such as 3,4,3,3", text, ucr.MaxCoord)}
	}
	for i, part := range parts {
		n, err := strconv.ParseUint(strings.TrimSpace(part), 10, 8)
		if err != nil || n > ucr.MaxCoord {
			return at, &usageError{fmt.Sprintf("%.40q: want a number from 0 to %d", part, ucr.MaxCoord)}
		}
		at[i] = uint8(n)
	}
	return at, nil
}

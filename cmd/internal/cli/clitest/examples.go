package clitest

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/cmd/internal/cli"
)

// Examples are command lines of a program that users are shown, by where they are: those in
// the shell blocks of the documents below a directory, and those in the help of p.
func Examples(t *testing.T, p *cli.Program, root string) map[string][][]string {
	t.Helper()
	name := p.Root.Name()
	found := make(map[string][][]string)
	p.Walk(func(cmd *cobra.Command) {
		for line := range strings.Lines(continued.ReplaceAllString(cmd.Example, " ")) {
			line, _, _ = strings.Cut(strings.TrimSpace(line), "   ") // a description follows
			found[cmd.CommandPath()+" --help"] = append(found[cmd.CommandPath()+" --help"], commands(line, name)...)
		}
	})
	block := regexp.MustCompile("(?ms)^```(?:sh|console)\n(.*?)^```$")
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(file) != ".md" {
			return err
		}
		text, err := os.ReadFile(file)
		for _, m := range block.FindAllStringSubmatch(string(text), -1) {
			found[file] = append(found[file], commands(m[1], name)...)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// continued is the end of a line that goes on in the next one.
var continued = regexp.MustCompile(`\\\n\s*`)

// commands returns the commands of a program in a shell script, as words. Values of
// variables and of other commands become values that fit: an address, a digest. It knows
// what the examples need of the shell.
func commands(script, program string) (list [][]string) {
	script = regexp.MustCompile(`(?ms)<<'(\w+)'.*?^\w+$`).ReplaceAllString(script, "")
	script = continued.ReplaceAllString(script, " ")
	script = regexp.MustCompile(`\$\(([^()]*)\)`).ReplaceAllStringFunc(script, func(m string) string {
		list = append(list, commands(m[2:len(m)-1], program)...)
		return digest
	})
	script = regexp.MustCompile(`\$\{?[a-z]*edge\}?\b`).ReplaceAllString(script, "swp+tls://127.0.0.1:7777")
	script = regexp.MustCompile(`\$\{?\w+\}?`).ReplaceAllString(script, digest)
	script = strings.ReplaceAll(script, "…", "")
	words := regexp.MustCompile(`\d?>>?\s*\S+|<\s*\S+|\|\||&&|[|;&\n]|#[^\n]*|(?:'[^']*'|"[^"]*"|[^\s'"|;&<>])+`)
	var command []string
	end := func() {
		for len(command) > 0 && (slices.Contains([]string{"$", "exec", "until", "while", "if", "do", "!"}, command[0]) || regexp.MustCompile(`^\w+=`).MatchString(command[0])) {
			command = command[1:]
		}
		if len(command) > 0 && command[0] == program {
			list = append(list, command[1:])
		}
		command = nil
	}
	for _, word := range words.FindAllString(script, -1) {
		switch {
		case strings.ContainsAny(word[:1], "|;&\n"):
			end()
		case word[0] == '#', word[0] == '<', regexp.MustCompile(`^\d?>`).MatchString(word):
		default:
			command = append(command, regexp.MustCompile(`'([^']*)'|"([^"]*)"`).ReplaceAllString(word, "$1$2"))
		}
	}
	end()
	return list
}

const digest = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"

// Accepts returns why a program refuses a command line before it does anything.
func Accepts(p *cli.Program, args []string) error {
	p.Walk(func(*cobra.Command) {})
	cmd, rest, err := p.Root.Find(args)
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	cmd.SetContext(context.Background())
	if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil || p.Before == nil {
		return err
	}
	return p.Before(cmd)
}

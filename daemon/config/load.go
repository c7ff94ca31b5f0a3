package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/slimwire/swp/profiles"
)

// maxFile is the largest configuration that is read.
const maxFile = 1 << 20

var (
	defaultWorker  = A2AWorker{Dir: "/", Timeout: profiles.WorkWait, Tasks: 4, Nodes: NodesActive}
	defaultBackend = RPCBackend{Timeout: profiles.WorkWait}
	defaultCard    = AgentCard{MaxAge: 5 * time.Minute}
)

// Load reads the configuration in file, or takes the built-in one if file is empty,
// applies the SWPD_ variables of environ (see os.Environ), and checks the result.
// Relative paths in it are relative to the file. Rules can name the built-in profiles
// and the given ones, of a program that embeds swpd. The error is a Problems, or the
// error of the operating system if the file cannot be read.
func Load(file string, environ []string, own ...*profiles.Profile) (*Config, error) {
	return loadWith(file, environ, nil, own...)
}

// LoadWith is Load with another content of the file of a partner in PartnersDir, which need
// not exist, and without the files of the partners in without.
func LoadWith(file string, environ []string, partner string, text []byte, without ...string) (*Config, error) {
	instead := replaced{partner: text}
	for _, name := range without {
		instead[name] = nil
	}
	return loadWith(file, environ, instead)
}

func loadWith(file string, environ []string, instead replaced, own ...*profiles.Profile) (*Config, error) {
	text, err := read(file)
	if err != nil {
		return nil, err
	}
	partners, err := readPartners(file, instead)
	if err != nil {
		return nil, err
	}
	return parse(file, text, partners, environ, own...)
}

// AdminAddress returns the address of admin of a configuration, as Load does, but ignores other
// problems of the file: the file may change while swpd runs.
func AdminAddress(file string, environ []string) (string, error) {
	text, err := read(file)
	if err != nil {
		return "", err
	}
	c, d, err := decodeKeys(file, text, nil, environ)
	if err != nil {
		return "", err
	}
	c.checkAdmin(&d.problems)
	if own := slices.DeleteFunc(d.problems.list, func(p Problem) bool { return p.Key != "admin" && p.Key != "admin.address" }); len(own) > 0 {
		return "", own
	}
	return c.Admin.Address, nil
}

// CommandAddress returns the address at which commands ask the swpd of a configuration: its admin
// listener if that is a Unix socket, or else the socket in its data directory, as unix:PATH; AdminOff
// if it has none. Like AdminAddress it ignores other problems.
func CommandAddress(file string, environ []string) (string, error) {
	address, err := AdminAddress(file, environ)
	if _, unix := UnixSocket(address); err != nil || unix || address == AdminOff {
		return address, err
	}
	text, err := read(file)
	if err != nil {
		return "", err
	}
	c, _, err := decodeKeys(file, text, nil, environ)
	if err != nil {
		return "", err
	}
	dir := "."
	if file != "" {
		dir = filepath.Dir(file)
	}
	if err := c.resolve(dir); err != nil {
		return "", err
	}
	return unixPrefix + c.AdminSocket(), nil
}

// read returns the text of a file, nothing if file is empty.
func read(file string) ([]byte, error) {
	if file == "" {
		return nil, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	_ = f.Close()
	if err != nil {
		return nil, err
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s: larger than %d octets", file, maxFile)
	}
	return text, nil
}

// decodeKeys reads the keys of a configuration; problems of single ones are with the decoder.
func decodeKeys(file string, text []byte, partners []partnerText, environ []string) (*Config, *decoder, error) {
	origins := map[string]origin{"": {where: file}}
	d := &decoder{
		problems: problems{origins: origins},
		values:   problems{origins: origins},
		file:     file,
		named:    make(map[*yaml.Node]string),
	}
	root, err := document(file, text, reflect.TypeFor[Config]())
	if err != nil {
		return nil, nil, err
	}
	if err := d.include(root, partners); err != nil {
		return nil, nil, err
	}
	d.override(root, environ)
	c := Default()
	c.Source = file
	if root.Kind != yaml.MappingNode {
		d.origins[""] = d.originOf(root)
	}
	d.value("", root, reflect.ValueOf(c).Elem(), 0)
	c.Places = d.places()
	for _, f := range partners {
		if c.PartnerFiles == nil {
			c.PartnerFiles = make(map[string]string)
		}
		c.PartnerFiles[f.name] = f.file
	}
	return c, d, nil
}

func parse(file string, text []byte, partners []partnerText, environ []string, own ...*profiles.Profile) (*Config, error) {
	c, d, err := decodeKeys(file, text, partners, environ)
	if err != nil {
		return nil, err
	}
	c.Profiles = own
	if err := d.err(); err != nil {
		return nil, err // problems that follow from a typing error do not help
	}
	if file == "" && !d.isSet("access") {
		c.Access = c.builtInAccess()
	}
	dir := "."
	if file != "" {
		dir = filepath.Dir(file)
	}
	if err := c.resolve(dir); err != nil {
		return nil, err
	}
	c.admit()
	c.check(&d.values)
	if err := d.values.err(); err != nil {
		return nil, err
	}
	return c, nil
}

// document returns the mapping that the file consists of; of an empty file one for the type.
func document(file string, text []byte, of reflect.Type) (*yaml.Node, error) {
	var doc, more yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(text))
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return emptyNode(of), nil
		}
		return nil, Problems{syntaxProblem(file, text, err)}
	}
	if err := dec.Decode(&more); err == nil {
		return nil, Problems{{Where: placeAt(file, more.Line), Text: "a second YAML document begins here; keep one", line: more.Line}}
	} else if !errors.Is(err, io.EOF) {
		return nil, Problems{syntaxProblem(file, text, err)}
	}
	root := doc.Content[0]
	if root.Kind == yaml.ScalarNode && root.ShortTag() == "!!null" {
		return emptyNode(of), nil
	}
	return root, nil
}

// resolve makes the paths absolute.
func (c *Config) resolve(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	paths := []*string{&c.Identity.Cert, &c.Identity.Key, &c.Data, &c.Log.AccessFile}
	for i := range c.Trust.CA {
		paths = append(paths, &c.Trust.CA[i])
	}
	for i := range c.Trust.CRL {
		paths = append(paths, &c.Trust.CRL[i])
	}
	for _, name := range slices.Sorted(maps.Keys(c.A2A.Workers)) {
		worker := c.A2A.Workers[name]
		resolveProgram(dir, &worker.Command, &worker.Dir)
		if worker.Schema != "" && !filepath.IsAbs(worker.Schema) {
			worker.Schema = filepath.Join(dir, worker.Schema)
		}
		c.A2A.Workers[name] = worker
	}
	c.resolveDiscovery(dir)
	c.resolveCred(dir)
	c.resolveSDL(dir)
	c.resolveSLIP(dir)
	c.resolvePartners(dir)
	c.HTTP.TLS.resolve(dir)
	c.Metrics.TLS.resolve(dir)
	c.resolveTeams(dir)
	c.resolveServers(dir)
	for _, p := range paths {
		if *p != "" && !filepath.IsAbs(*p) {
			*p = filepath.Join(dir, *p)
		}
	}
	return nil
}

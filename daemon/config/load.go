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
	c, _, err := everything.load(file, environ, nil, own...)
	return c, err
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

// decodeKeys reads the keys of a configuration. The problems are with the decoder.
func decodeKeys(file string, text []byte, partners []partnerText, environ []string) (*Config, *decoder) {
	origins := map[string]origin{"": {where: file}}
	d := &decoder{
		problems: problems{origins: origins},
		values:   problems{origins: origins},
		file:     file,
		named:    make(map[*yaml.Node]string),
	}
	c := Default()
	c.Source = file
	root, faults := document(file, text, reflect.TypeFor[Config]())
	d.problems.list = faults
	if root != nil && root.Kind != yaml.MappingNode {
		d.origins[""] = d.originOf(root)
		d.add("", "%s, want a mapping of keys", d.describe("", root))
		root = nil
	}
	usable := root != nil
	if !usable {
		root = emptyNode(reflect.TypeFor[Config]())
	}
	d.include(root, partners)
	if usable { // else the variables do not find their sections
		d.override(root, environ)
	}
	d.value("", root, reflect.ValueOf(c).Elem(), 0)
	c.Places = d.places()
	for _, f := range partners {
		if f.fault != nil {
			continue
		}
		if c.PartnerFiles == nil {
			c.PartnerFiles = make(map[string]string)
		}
		c.PartnerFiles[f.name] = f.file
	}
	return c, d
}

// parse reads a configuration for somebody with needs.
func (n Needs) parse(file string, text []byte, partners []partnerText, environ []string, own ...*profiles.Profile) (*Config, Problems, error) {
	c, d := decodeKeys(file, text, partners, environ)
	c.Profiles = own
	needed, unneeded := n.divide(c, d.problems.list)
	if len(needed) > 0 {
		return nil, nil, needed // problems that follow from a typing error do not help
	}
	if file == "" && !d.isSet("access") {
		c.Access = c.builtInAccess()
	}
	dir := "."
	if file != "" {
		dir = filepath.Dir(file)
	}
	if err := c.resolve(dir); err != nil {
		return nil, nil, err
	}
	c.admit()
	d.values.looks = n.looks
	c.check(&d.values)
	needed, more := n.divide(c, d.values.list)
	if len(needed) > 0 {
		return nil, nil, needed
	}
	if len(unneeded) == 0 { // else more may follow from them
		unneeded = more
	}
	return c, unneeded, nil
}

// document returns the mapping that the file consists of; of an empty file one for the type.
func document(file string, text []byte, of reflect.Type) (*yaml.Node, Problems) {
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

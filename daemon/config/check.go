package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"

	"github.com/slimwire/swp/internal/spiffe"
	"github.com/slimwire/swp/transport"
)

// check finds problems of well-formed values.
func (c *Config) check(p *problems) {
	c.checkIdentity(p)
	c.checkListeners(p)
	c.checkAdmin(p)
	c.checkHealth(p)
	c.checkMetrics(p)
	c.checkServers(p)
	c.checkPartners(p)
	c.checkNames(p)
	c.checkHTTP(p)
	c.checkLimits(p)
	c.checkPolicies(p)
	c.checkStore(p)
	c.checkCluster(p)
	c.checkAccess(p)
	c.checkWorkers(p)
	c.checkAgents(p)
	c.checkTeams(p)
	c.checkBackends(p)
	c.checkHints(p)
	c.checkDiscovery(p)
	c.checkArtifact(p)
	c.checkRelay(p)
	c.checkCred(p)
	c.checkSDL(p)
	c.checkSLIP(p)
	c.checkDurations(p)
	c.checkAudit(p)
}

func (c *Config) checkIdentity(p *problems) {
	id := c.Identity
	if id.SPIFFE != "" {
		c.checkSPIFFE(p)
	}
	switch {
	case id.SPIFFE != "":
	case id.SPIFFEID != "":
		p.add("identity.spiffe_id", "set without identity.spiffe, whose SVID it names")
	case id.Hint != "":
		p.add("identity.hint", "set without identity.spiffe, whose SVID it names")
	case id.Cert == "" && id.Key != "":
		p.add("identity.cert", "missing beside identity.key; set both, or neither for a development identity")
	case id.Cert != "" && id.Key == "":
		p.add("identity.key", "missing beside identity.cert; set both, or neither for a development identity")
	case id.Cert == "" && len(c.Trust.CA) > 0:
		p.add("trust.ca", "set without identity; set identity.cert and identity.key too")
	case id.Cert != "" && len(c.Trust.CA) == 0:
		p.add("trust.ca", "no authority is trusted, so nobody could connect; list the PEM file of at least one")
	}
	readable(p, "identity.cert", id.Cert)
	private(p, "identity.key", id.Key)
	seen := make(map[string]bool)
	for i, file := range c.Trust.CA {
		key := fmt.Sprintf("trust.ca[%d]", i)
		if seen[file] {
			p.add(key, "%s is listed twice", file)
		}
		seen[file] = true
		readable(p, key, file)
	}
	for i, file := range c.Trust.CRL {
		readable(p, fmt.Sprintf("trust.crl[%d]", i), file)
	}
	if len(c.Trust.CRL) > 0 && len(c.Trust.CA) == 0 {
		p.add("trust.crl", "set without trust.ca, whose authorities issue the lists")
	}
}

func (c *Config) checkSPIFFE(p *problems) {
	id := c.Identity
	if id.Cert != "" || id.Key != "" {
		p.add("identity.spiffe", "set beside identity.cert and identity.key; the certificate comes from files or from the Workload API")
	}
	if _, err := spiffe.Socket(id.SPIFFE); err != nil && !errors.Is(err, spiffe.ErrUnset) {
		p.add("identity.spiffe", "%v", err)
	}
	if id.SPIFFEID != "" {
		p.checkSPIFFEID("identity.spiffe_id", id.SPIFFEID)
	}
}

// checkSPIFFEID refuses a text that is not the SPIFFE ID of a workload.
func (p *problems) checkSPIFFEID(key, id string) {
	domain := transport.TrustDomain(id)
	if domain == "" || id == "spiffe://"+domain || strings.HasSuffix(id, "/") || strings.Contains(id, "*") || !canonical(id) {
		p.add(key, "%.200q is not a SPIFFE ID, want one such as spiffe://example.org/swpd", id)
	}
}

// readable reports whether file can be read; an empty name is left to others.
func readable(p *problems, key, file string) bool {
	if file == "" || !p.sees(key) {
		return false
	}
	f, err := os.Open(file)
	if err != nil {
		p.add(key, "%v", Unreadable(file, err))
		return false
	}
	_ = f.Close()
	return true
}

// Unreadable returns why a file cannot be read, with its name and what to do.
func Unreadable(file string, err error) error { return &unreadableError{file, err} }

type unreadableError struct {
	file string
	err  error
}

func (e *unreadableError) Error() string { return e.file + " " + unreadable(e.err) }
func (e *unreadableError) Unwrap() error { return e.err }

func unreadable(err error) string {
	switch failed := (*fs.PathError)(nil); {
	case errors.Is(err, fs.ErrNotExist):
		return "does not exist; make it, or name another one"
	case errors.Is(err, fs.ErrPermission):
		return "is not readable for this account; change its permissions, or use the account of swpd"
	case errors.As(err, &failed):
		err = failed.Err
	}
	return fmt.Sprintf("cannot be read: %v", err)
}

// private is readable for a file with a secret, which other users must not reach.
func private(p *problems, key, file string) {
	if !readable(p, key, file) {
		return
	}
	if err := CheckPrivate(file); err != nil {
		p.add(key, "%v", err)
	}
}

// CheckPrivate refuses a file with a secret, such as a private key, that every user of the
// machine can reach.
func CheckPrivate(file string) error {
	info, err := os.Stat(file)
	if err != nil {
		return Unreadable(file, err)
	}
	if mode := info.Mode().Perm(); mode&0o007 != 0 {
		return fmt.Errorf("%s has mode %04o, so every user can reach the secret in it; run: chmod 600 %s", file, mode, file)
	}
	return nil
}

func (c *Config) checkListeners(p *problems) {
	if len(c.Listeners) == 0 {
		p.add("listeners", "is empty; list at least one address, such as swp+tls://0.0.0.0:7777")
	}
	taken := make(map[string]string) // network and address → key
	for i, l := range c.Listeners {
		key := fmt.Sprintf("listeners[%d].address", i)
		if l.Address.Transport == "" {
			p.add(key, "missing; set one such as swp+tls://0.0.0.0:7777")
			continue
		}
		if c.Development() && !Loopback(l.Address.Host) {
			p.add(key, "%s can be reached from other machines, and a development identity is for this one; set identity and trust", l.Address)
		}
		if l.Address.Port == 0 {
			continue
		}
		network := "tcp"
		if l.Address.Transport == "quic" {
			network = "udp"
		}
		at := network + " " + l.Address.HostPort()
		if other, ok := taken[at]; ok {
			p.add(key, "%s is the same %s port as %s", l.Address, network, other)
		}
		taken[at] = key
	}
	for _, one := range []struct{ key, network, address string }{
		{"admin", "tcp", c.Admin.Address}, {"http.address", "tcp", c.HTTP.Address}, {"health", "tcp", c.Health},
		{"metrics.address", "tcp", c.Metrics.Address}, {"cluster.address", "tcp", c.Cluster.Address}, {"cluster.address", "udp", c.Cluster.Address},
	} {
		if _, port, err := net.SplitHostPort(one.address); err != nil || port == "0" {
			continue
		}
		at := one.network + " " + one.address
		if other, ok := taken[at]; ok {
			p.add(one.key, "%s is the same %s port as %s", one.address, one.network, other)
		}
		taken[at] = one.key
	}
}

func (c *Config) checkHealth(p *problems) {
	if c.Health == AdminOff {
		return
	}
	if _, err := checkHostPort(c.Health, "0.0.0.0:7781, or off"); err != nil {
		p.add("health", "%v", err)
	}
}

// checkHostPort returns the host of an address.
func checkHostPort(address, example string) (host string, err error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", fmt.Errorf("%.200q is not host:port; set one such as %s", address, example)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", fmt.Errorf("port %.16q, want 0 to 65535", port)
	}
	if _, err := netip.ParseAddr(host); err != nil && host != "" && !hostName.MatchString(host) {
		return "", fmt.Errorf("%.200q is no IP address and no name of a host; set one such as %s", host, example)
	}
	return host, nil
}

// CheckAdmin returns why the admin listener cannot have an address; AdminOff is none.
func CheckAdmin(address string) error {
	if address == AdminOff {
		return nil
	}
	if path, ok := UnixSocket(address); ok {
		if !filepath.IsAbs(path) || len(path) > maxSocketPath {
			return fmt.Errorf("%.200q is not the path of a socket: it is absolute and has at most %d octets; set one such as unix:/run/swpd/admin.sock", path, maxSocketPath)
		}
		return nil
	}
	host, err := checkHostPort(address, "127.0.0.1:7780, or off")
	if err != nil {
		return err
	}
	if !Loopback(host) {
		return fmt.Errorf("%q is not a loopback address; the admin listener has no authentication and is for this machine only", address)
	}
	return nil
}

// maxSocketPath is the length of a path in a sockaddr_un.
const maxSocketPath = 107

// UnixSocket returns the path in an address such as unix:/run/swpd/admin.sock, and whether the
// address is one.
func UnixSocket(address string) (path string, ok bool) { return strings.CutPrefix(address, unixPrefix) }

const unixPrefix = "unix:"

// CommandAddress returns the address at which commands ask the swpd of this configuration: its admin
// listener if that is a Unix socket, or else the socket in the data directory, as unix:PATH. Without an admin listener
// it is AdminOff.
func (c *Config) CommandAddress() string {
	if c.Admin.Address == AdminOff {
		return AdminOff
	}
	return unixPrefix + c.AdminSocket()
}

// AdminSocket returns the path of the Unix socket for commands, empty if admin is off: the one of
// admin.address, or else admin.sock in the data directory.
func (c *Config) AdminSocket() string {
	if path, unix := UnixSocket(c.Admin.Address); unix || c.Admin.Address == AdminOff {
		return path
	}
	return filepath.Join(c.Data, "admin.sock")
}

// ShortSocket returns a name of the socket with a path that is short enough for the system. It is valid
// until done.
func ShortSocket(path string) (short string, done func(), err error) {
	if len(path) < maxSocketPath {
		return path, func() {}, nil
	}
	if runtime.GOOS != "linux" {
		return "", nil, fmt.Errorf("the path of the socket %s has %d octets, and the system allows %d: set a shorter one, admin: unix:PATH", path, len(path), maxSocketPath)
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)), func() { _ = dir.Close() }, nil
}

// Loopback reports whether a host is this machine: "localhost" or a loopback IP
// address. No other name is looked up.
func Loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// AdminOff is the value of admin that turns the listener off.
const AdminOff = "off"

var (
	hostName   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$`)
	serverName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	envName    = regexp.MustCompile(`^[^=\x00]+$`)
)

// checkName refuses an invalid name of an entry. hint is appended to the text and may be
// empty.
func checkName(p *problems, key, name, hint string) {
	if !serverName.MatchString(name) {
		p.add(key, "%.80q is not a name: 1 to 64 letters, digits, '.', '_' and '-', the first a letter or digit%s", name, hint)
	}
}

// checkCommand refuses a command that cannot be executed. A bare name is looked up in PATH
// once.
func checkCommand(p *problems, key, command string) {
	switch {
	case command == "":
		p.add(key, "missing; name the program, by its path or as found in PATH, or the url of a server")
	case p.sees(key):
		if _, err := exec.LookPath(command); err != nil {
			p.add(key, "%s", notExecutable(command, err))
		}
	}
}

// notExecutable says why a command cannot be executed, and what to do.
func notExecutable(command string, err error) string {
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return fmt.Sprintf("%.200q is in no directory of PATH, which is %.500q here; install it, or name its path", command, os.Getenv("PATH"))
	case errors.Is(err, fs.ErrNotExist):
		return command + " does not exist; install it, or name another path"
	case errors.Is(err, fs.ErrPermission):
		return command + " is not executable for this account; change its permissions (chmod +x), or name another program"
	}
	return err.Error()
}

func (c *Config) checkLimits(p *problems) {
	l := &c.Limits
	for _, row := range []struct {
		key       string
		value     int64
		low, high int64
	}{
		{"frame_rate", int64(l.FrameRate), 0, 100_000_000},
		{"frame_burst", int64(l.FrameBurst), 0, 200_000_000},
		{"connections", int64(l.Connections), 1, 1_000_000},
		{"connections_per_identity", int64(l.ConnectionsPerIdentity), 1, 1_000_000},
		{"in_flight", int64(l.InFlight), 1, 1_000_000},
		{"long_exchanges", int64(l.LongExchanges), 1, 1_000_000},
		{"handlers", int64(l.Handlers), 1, 1_000_000},
		{"frame_bytes", int64(l.FrameBytes), 64, 1 << 30},
		{"payload_bytes", int64(l.PayloadBytes), 1, 1 << 30},
		{"extension_bytes", int64(l.ExtensionBytes), 1, 1 << 20},
		{"in_flight_bytes", int64(l.InFlightBytes), 1 << 20, 1<<31 - 1},
		{"in_flight_bytes_per_connection", int64(l.InFlightBytesPerConn), 1 << 16, 1<<31 - 1},
		{"outbound_bytes_per_connection", int64(l.OutboundBytes), 1 << 16, 1<<31 - 1},
		{"outbound_frames_per_connection", int64(l.OutboundFrames), 1, 10_000_000},
		{"error_budget", int64(l.ErrorBudget), 1, 1_000_000},
		{"pace_budget", int64(l.PaceBudget), 1, 10_000_000},
	} {
		if row.value < row.low || row.value > row.high {
			p.add("limits."+row.key, "is %d, want %d to %d", row.value, row.low, row.high)
		}
	}
	for key, d := range map[string]int64{"idle": int64(l.Idle), "body": int64(l.Body), "write": int64(l.Write), "handler": int64(l.Handler)} {
		if d <= 0 {
			p.add("limits."+key, "is 0, want a duration above 0, such as 30s")
		}
	}
	for i, text := range l.Proxies {
		if _, err := parseNetwork(text); err != nil {
			p.add(fmt.Sprintf("limits.proxies[%d]", i), "%.64q is neither an address nor a network, want one such as 10.1.2.3 or 10.1.0.0/16", text)
		}
	}
	if l.FrameRate == 0 && l.FrameBurst > 0 {
		p.add("limits.frame_burst", "is %d while limits.frame_rate is 0, which turns pacing off; remove one", l.FrameBurst)
	}
}

// parseNetwork reads an address, or a network in CIDR notation.
func parseNetwork(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		addr = addr.Unmap()
		return addr.Prefix(addr.BitLen())
	}
	return netip.ParsePrefix(text)
}

// Networks returns Proxies.
func (l *Limits) Networks() []netip.Prefix { return networksOf(l.Proxies) }

func networksOf(texts []string) []netip.Prefix {
	var list []netip.Prefix
	for _, text := range texts {
		if network, err := parseNetwork(text); err == nil { // checked
			list = append(list, network)
		}
	}
	return list
}

// checkAccessFile refuses files to which no line of the access log may be added: those that
// swpd itself writes, and others that are there and do not begin as such a log does.
func (c *Config) checkAccessFile(p *problems) {
	const key = "log.access_file"
	name := c.Log.AccessFile
	if name == "" {
		return
	}
	if below, err := filepath.Rel(c.Data, name); c.Data != "" && err == nil && filepath.IsLocal(below) {
		p.add(key, "%.200q is in %.200q, which is for files of swpd itself; name a file elsewhere", name, c.Data)
		return
	}
	if !p.sees(key) {
		return
	}
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return // it will be made, or opening it says what is wrong
	}
	file, err := os.Open(name)
	if err != nil {
		return
	}
	defer file.Close() //nolint:errcheck // it was only read
	first := make([]byte, 1)
	if _, err := io.ReadFull(file, first); err == nil && first[0] != '{' {
		p.add(key, "%.200q is there, and is no access log; name another file", name)
	}
}

func (c *Config) checkPolicies(p *problems) {
	c.checkAccessFile(p)
	if c.Freshness.Owner == "off" {
		if c.Freshness.Required {
			p.add("freshness.required", "is true while freshness.owner is off; set owner to core or s1")
		}
		if p.isSet("freshness.skew") {
			p.add("freshness.skew", "is set while freshness.owner is off; set owner to core or s1, or remove it")
		}
	}
	if c.Freshness.Skew <= 0 {
		p.add("freshness.skew", "is 0, want a duration above 0, such as 5m")
	}
	if c.Rate.WindowMS < 1 || c.Rate.WindowMS > 3_600_000 {
		p.add("rate.window_ms", "is %d, want 1 to 3600000", c.Rate.WindowMS)
	}
	if c.Rate.Frames < 0 {
		p.add("rate.frames", "is %d, want 0 (off) or more", c.Rate.Frames)
	}
	if c.Rate.Frames == 0 && p.isSet("rate.window_ms") {
		p.add("rate.window_ms", "is set while rate.frames is 0, which turns the window off; remove one")
	}
}

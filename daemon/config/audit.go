package config

import "path/filepath"

// Audit configures the audit trail in Data.
type Audit struct {
	Exchanges string `yaml:"exchanges" choice:"all,denials,off"` // empty: see AuditExchanges
	Sync      string `yaml:"sync" choice:"second,exchange"`
	Size      Size   `yaml:"size"`     // of all segments
	Receipts  bool   `yaml:"receipts"` // exchanged with partners that do so, too
}

// Values of Audit.
const (
	AuditOff     = "off"
	AuditDenials = "denials"
	AuditAll     = "all"

	AuditSyncSecond   = "second"
	AuditSyncExchange = "exchange"
)

// minAudit is the smallest trail: several segments of some records.
const minAudit = 1 << 20

// AuditExchanges is audit.exchanges. If it is not set, all exchanges have a record, and none
// where the store is in memory: then nothing of this swpd outlives it.
func (c *Config) AuditExchanges() string {
	switch {
	case c.Audit.Exchanges != "":
		return c.Audit.Exchanges
	case c.Store == StoreMemory:
		return AuditOff
	}
	return AuditAll
}

// AuditDir is the directory of the audit trail.
func (c *Config) AuditDir() string { return filepath.Join(c.Data, "audit") }

// HealthFile keeps what is known of servers, partners and others over restarts; empty with store: memory.
func (c *Config) HealthFile() string { return c.kept("health.json") }

// HistoryFile keeps the last 24 hours of the metrics that the page draws; empty with store: memory.
func (c *Config) HistoryFile() string { return c.kept("history.json") }

// kept returns a file in the data directory, empty with store: memory.
func (c *Config) kept(name string) string {
	if c.Store == StoreMemory {
		return ""
	}
	return filepath.Join(c.Data, name)
}

func (c *Config) checkAudit(p *problems) {
	if c.Audit.Receipts && c.AuditExchanges() != AuditAll {
		p.add("audit.receipts", "is true, want audit.exchanges: all (it is %s), because a receipt is compared with a record", c.AuditExchanges())
	}
	if c.Audit.Size < minAudit {
		p.add("audit.size", "is %v, want at least %v", c.Audit.Size, Size(minAudit))
	}
}

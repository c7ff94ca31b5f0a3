package daemon

import (
	"context"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/partners"
	"github.com/slimwire/swp/daemon/internal/storage"
)

// PinnedTool is a tool of a partner in the answer to GET /partners/NAME/tools.
type PinnedTool = partners.PinnedTool

// States of a PinnedTool.
const (
	ToolUnpinned = partners.Unpinned
	ToolPinned   = partners.Pinned
	ToolChanged  = partners.Changed
	ToolGone     = partners.Gone
	ToolUnread   = partners.Unread
)

// NamesIn returns the names in the closed store of a configuration that have each of several prefixes, by
// their kind, as the answer to GET /names does.
func NamesIn(ctx context.Context, c *config.Config, prefixes []string) (map[string]map[string][]string, error) {
	return storage.NamedIn(ctx, c, prefixes)
}

// Transfer exports or imports the store of a configuration, or computes its digest.
type Transfer = storage.Transfer

// Copy copies a store to another one, and compares both.
type Copy = storage.Copy

// Copied is what a Copy has carried, and Digested the digest of a store.
type (
	Copied   = storage.Copied
	Digested = storage.Digested
)

// AdminToken is the file in the data directory with a token for POST /backup and POST /actions/NAME of
// the admin listener, for accounts that can read that directory.
const AdminToken = storage.TokenFile

// Headers that follow a backup: the summary, a Transferred in JSON, and the SHA-256 of all
// octets in hexadecimal.
const (
	HeaderSummary = "Swpd-Summary"
	HeaderDigest  = "Swpd-Sha256"
)

// Transferred counts what an export or import of a store has carried.
type Transferred = storage.Transferred

// What GET /store/KIND and POST /actions/NAME of the admin listener take and answer.
type (
	StoredKind   = storage.Kind
	StoredRow    = storage.Row
	StoredRows   = storage.Rows
	StoredAction = storage.Action
	StoredTarget = storage.Target
	StoredResult = storage.Result
)

// MaxStoredRows is the greatest number of rows on a page of GET /store/KIND.
const MaxStoredRows = storage.MaxRows

// StoredKinds describes the kinds of stored data.
func StoredKinds() []StoredKind { return storage.Kinds() }

// Claim is what a store says about an identity: whether it owns data, and who vouched for the partner that
// had it last.
type Claim = storage.Claim

// ClaimIn returns the Claim of an identity in the store of a configuration that no swpd has open.
func ClaimIn(ctx context.Context, c *config.Config, identity string) (Claim, error) {
	return storage.ClaimIn(ctx, c, identity)
}

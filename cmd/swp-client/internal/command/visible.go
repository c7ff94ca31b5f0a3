package command

import "github.com/slimwire/swp/cmd/internal/cli"

// visible is short for cli.Visible, because most lines here have text of a peer.
func visible(s string) string { return cli.Visible(s) }

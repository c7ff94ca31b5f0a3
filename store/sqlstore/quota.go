package sqlstore

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"

	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/internal/checksum"
	"github.com/slimwire/swp/store/internal/quota"
)

// Overhead is the number of octets that a record, an entry or a log counts against a quota
// in addition to its names and value.
const Overhead = quota.Overhead

func cost(names, value int) int64 { return quota.Cost(names, value) }

// owner holds the usage of one owner.
type owner struct {
	id      int64 // 0 until number was called
	name    string
	used    int64
	peer    *int64 // octets of the peer of the owner and all its callers; nil until peerOf was called
	written bool   // it has a row
	changed bool
}

// owners is the cache of owners.
type owners struct {
	byName  map[string]*owner
	byID    map[int64]*owner
	changed []*owner
	total   int64 // usage of all owners
	settled int64 // the same as of the last commit

	peers map[string]*int64 // octets of peers with all their callers, as far as they are known

	// shares divide the quota of the store. They are nil until the store is nearly full.
	shares *fair.Shares
}

// maxOwners limits the cache between transactions.
const maxOwners = 4096

func (o *owners) forget() {
	clear(o.byName)
	clear(o.byID)
	clear(o.peers)
	o.changed = o.changed[:0]
	o.total, o.shares = o.settled, nil
}

const (
	selectOwner   = `SELECT id, name, used, sum FROM owner WHERE name = ?`
	selectOwnerID = `SELECT id, name, used, sum FROM owner WHERE id = ?`
	insertOwner   = `INSERT INTO owner (used, sum, id, name) VALUES (?, ?, ?, ?)`
	updateOwner   = `UPDATE owner SET used = ?, sum = ? WHERE id = ?`
	deleteOwner   = `DELETE FROM owner WHERE id = ?`
	selectOwners  = `SELECT id, name, used, sum FROM owner`
)

// owner returns an owner by name.
func (w *writer) owner(name string) (*owner, error) {
	if o := w.owners.byName[name]; o != nil {
		return o, nil
	}
	row, err := w.conn.row(selectOwner, []byte(name))
	if err != nil {
		return nil, err
	}
	if row == nil {
		o := &owner{name: name}
		w.owners.byName[name] = o
		return o, nil
	}
	return w.keepOwner(row)
}

// ownerByID returns the owner with the number from a row.
func (w *writer) ownerByID(id int64) (*owner, error) {
	if o := w.owners.byID[id]; o != nil {
		return o, nil
	}
	row, err := w.conn.row(selectOwnerID, id)
	if err != nil {
		return nil, err
	}
	if row == nil {
		return nil, w.s.damaged("owner number %d", id)
	}
	return w.keepOwner(row)
}

func (w *writer) keepOwner(row []driver.Value) (*owner, error) {
	o, err := w.conn.readOwner(w.s, row)
	if err != nil {
		return nil, err
	}
	w.owners.byName[o.name] = o
	w.owners.byID[o.id] = o
	return o, nil
}

func (c *conn) sumOwner(id, used int64, name []byte) int64 {
	return c.sum(checksum.Owner, []int64{id, used}, nil, name)
}

// readOwner returns the owner of a row.
func (c *conn) readOwner(s *Store, row []driver.Value) (*owner, error) {
	o := &owner{id: number(row[0]), name: string(octets(row[1])), used: number(row[2]), written: true}
	if number(row[3]) != c.sumOwner(o.id, o.used, octets(row[1])) {
		return nil, s.damaged("owner %q", o.name)
	}
	return o, nil
}

// fits reports whether an owner may use so much more without knowing the shares of others.
func (w *writer) fits(o *owner, more int64) bool {
	now, err := w.useOf(o)
	return err == nil && w.s.bounds.Load().Fits(o.name, now, more)
}

// overQuota returns the error of an operation that would exceed a quota, or nil.
func (w *writer) overQuota(o *owner, more int64) error {
	now, err := w.useOf(o)
	if err != nil {
		return err
	}
	refused, err := w.s.bounds.Load().Refuse(o.name, now, more, w.shares)
	return cmp.Or(err, refused)
}

// useOf returns the octets of an owner, of its peer, and of all.
func (w *writer) useOf(o *owner) (quota.Use, error) {
	if o.peer == nil {
		if err := w.peerOf(o); err != nil {
			return quota.Use{}, err
		}
	}
	return quota.Use{Owner: o.used, Peer: *o.peer, All: w.owners.total}, nil
}

// selectPeer has the owners with a peer: itself, and those whose names begin with it and " for ".
const selectPeer = `SELECT id, name, used, sum FROM owner WHERE name = ?1 OR name > ?2 AND name < ?3`

// peerOf finds the usage of the peer of an owner. It reads the rows of the owners once; charge counts
// from then on.
func (w *writer) peerOf(o *owner) error {
	name := fair.PeerOf(o.name)
	if o.peer = w.owners.peers[name]; o.peer != nil {
		return nil
	}
	used := new(int64)
	add := func(one *owner) { // rows have the state of the last transaction; the cache has what this one has changed
		if cached := w.owners.byName[one.name]; cached == nil || !cached.changed {
			*used += one.used
		}
	}
	after, before := fair.CallersOf(name)
	if err := w.selectOwners(add, selectPeer, []byte(name), []byte(after), []byte(before)); err != nil {
		return err
	}
	for _, one := range w.owners.changed {
		if fair.PeerOf(one.name) == name {
			*used += one.used
		}
	}
	o.peer = used
	w.owners.peers[name] = used
	return nil
}

// makeRoom returns an error if an operation exceeds a quota. It removes expired rows first.
func (w *writer) makeRoom(o *owner, more int64) error {
	if err := w.overQuota(o, more); !errors.Is(err, store.ErrQuota) && !errors.Is(err, store.ErrShare) {
		return err
	}
	if err := w.sweep(roomRows); err != nil {
		return err
	}
	return w.overQuota(o, more)
}

// shares returns the usage of all owners. It reads them when the store is nearly full, and
// counts from then on.
func (w *writer) shares() (*fair.Shares, error) {
	if w.owners.shares != nil {
		return w.owners.shares, nil
	}
	// Rows have the state of the last transaction; the cache has what this one has changed.
	shares := new(fair.Shares)
	err := w.eachOwner(func(o *owner) {
		if w.owners.byName[o.name] == nil {
			shares.Force(o.name, int(o.used))
		}
	})
	if err != nil {
		return nil, err
	}
	for name, o := range w.owners.byName {
		shares.Force(name, int(o.used))
	}
	w.owners.shares = shares
	return shares, nil
}

// number assigns the number that represents an owner in rows.
func (w *writer) number(o *owner) {
	w.state.ids++
	o.id = w.state.ids
	w.owners.byID[o.id] = o
}

// charge adds octets, possibly negative, to the usage of an owner.
func (w *writer) charge(o *owner, octets int64) {
	o.used += octets
	w.owners.total += octets
	if o.peer == nil {
		o.peer = w.owners.peers[fair.PeerOf(o.name)]
	}
	if o.peer != nil {
		*o.peer += octets
	}
	switch shares := w.owners.shares; {
	case shares == nil:
	case octets < 0:
		shares.Give(o.name, int(-octets))
	default:
		shares.Force(o.name, int(octets))
	}
	if !o.changed {
		o.changed = true
		w.owners.changed = append(w.owners.changed, o)
	}
}

// refund subtracts octets from the usage of an owner, given by number.
func (w *writer) refund(id, octets int64) error {
	o, err := w.ownerByID(id)
	if err == nil {
		w.charge(o, -octets)
	}
	return err
}

// writeOwners writes a row for each changed owner.
func (w *writer) writeOwners() error {
	for _, o := range w.owners.changed {
		o.changed = false
		name := []byte(o.name)
		sum := w.conn.sumOwner(o.id, o.used, name)
		var err error
		switch {
		case o.used == 0:
			if o.written {
				_, err = w.conn.exec(deleteOwner, o.id)
			}
			delete(w.owners.byName, o.name)
			delete(w.owners.byID, o.id)
		case o.written:
			_, err = w.conn.exec(updateOwner, o.used, sum, o.id)
		default:
			_, err = w.conn.exec(insertOwner, o.used, sum, o.id, name)
			o.written = true
		}
		if err != nil {
			return err
		}
	}
	w.owners.changed = w.owners.changed[:0]
	if len(w.owners.byName) > maxOwners || len(w.owners.peers) > maxOwners {
		clear(w.owners.byName)
		clear(w.owners.byID)
		clear(w.owners.peers)
	}
	return nil
}

// countOwners returns the usage of all owners.
func (w *writer) countOwners() (total int64, err error) {
	err = w.eachOwner(func(o *owner) { total += o.used })
	return total, err
}

// eachOwner calls f with the owners of all rows.
func (w *writer) eachOwner(f func(*owner)) error { return w.selectOwners(f, selectOwners) }

// selectOwners calls f with the owners of the rows of a statement.
func (w *writer) selectOwners(f func(*owner), text string, args ...driver.Value) (err error) {
	failed := w.conn.rows(func(row []driver.Value) bool {
		var o *owner
		if o, err = w.conn.readOwner(w.s, row); err == nil {
			f(o)
		}
		return err == nil
	}, text, args...)
	return cmp.Or(failed, err)
}

const topOwners = `SELECT id, name, used, sum FROM owner ORDER BY used DESC LIMIT 5`

// Pools returns who uses the octets of the store, and whose operations wait. Without a
// connection for reading before ctx ends, the octets come without names.
func (s *Store) Pools(ctx context.Context) []fair.Pool {
	octetsOf := fair.Pool{Name: "store octets", Used: int(s.stats.used.Load()), Capacity: int(s.bounds.Load().Quota)}
	_ = s.read(ctx, func(c *conn) error {
		return c.rows(func(row []driver.Value) bool {
			if o, err := c.readOwner(s, row); err == nil {
				octetsOf.Most = append(octetsOf.Most, fair.Use{Identity: o.name, Used: int(o.used)})
			}
			return true
		}, topOwners)
	})
	return []fair.Pool{octetsOf, s.queue.Pool()}
}

package storetest

import (
	"github.com/slimwire/swp/store"
)

// A directory is open once. A lock of this process keeps out this process, too, so no second
// one is needed. Stores in memory have no directory.
var locks = []test{
	{name: "AnOpenStoreIsLocked", run: func(k *kit) {
		if k.memory {
			k.Skip("kept in memory: no other process can open it")
		}
		version := k.mustPut("space", "key", 0, "value", never)
		for range 2 { // a refusal leaves the lock as it is
			other, err := k.open(k.T, k.dir, k.options)
			if err == nil {
				_ = other.Close()
			}
			k.wantErr("Open of an open store", err, store.ErrLocked)
		}
		k.wantRecord("space", "key", version, "value")
		next := k.mustPut("space", "key", version, "next", never)
		k.reopen()
		k.wantRecord("space", "key", next, "next")
	}},
}

var blobLocks = []blobTest{
	{name: "AnOpenStoreIsLocked", run: func(k *blobKit) {
		if k.memory {
			k.Skip("kept in memory: no other process can open it")
		}
		version := k.put("a", "octets")
		for range 2 {
			other, err := k.open(k.T, k.dir, k.options)
			if err == nil {
				_ = other.Close()
			}
			k.wantErr("Open of an open store", err, store.ErrLocked)
		}
		if got := k.wantBlob("a", "octets"); got != version {
			k.Errorf("version %d, want %d", got, version)
		}
		k.reopen()
		k.wantBlob("a", "octets")
		k.put("b", "more")
	}},
}

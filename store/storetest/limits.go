package storetest

import (
	"github.com/slimwire/swp/store"
)

var limits = []test{
	{name: "NamesUpToTheirLimit", run: func(k *kit) {
		space, name := fill(store.MaxSpace), fill(store.MaxName)
		p := k.put(space, name, 0, fill(store.MaxOwner), "value", never)
		if !p.Wrote {
			k.Fatalf("Put = %+v", p)
		}
		k.wantRecord(space, name, p.Version, "value")
		if a := k.append(space, name, name, fill(store.MaxOwner), "x", never); !a.Fresh {
			k.Fatalf("Append = %+v", a)
		}
		first, last, err := k.Span(k.Context(), space, name)
		if err != nil || first != 1 || last != 1 {
			k.Errorf("Span = %d to %d, %v", first, last, err)
		}
	}},
	{name: "LongerNamesAreRefused", run: func(k *kit) {
		space, name, owner := fill(store.MaxSpace+1), fill(store.MaxName+1), fill(store.MaxOwner+1)
		errs := make(chan error, 1)
		removed := func(_ bool, err error) { errs <- err }
		done := func(err error) { errs <- err }
		yieldRecord := func(string, uint64, []byte) bool { return true }
		yieldEntry := func(uint64, string, []byte) bool { return true }
		ctx := k.Context()
		for _, c := range []struct {
			what string
			call func() error
		}{
			{"Put space", func() error { return k.put(space, "k", 0, "o", "", never).Err }},
			{"Put key", func() error { return k.put("s", name, 0, "o", "", never).Err }},
			{"Put owner", func() error { return k.put("s", "k", 0, owner, "", never).Err }},
			{"Delete space", func() error { k.Delete(space, "k", 0, removed); return wait(k, errs) }},
			{"Delete key", func() error { k.Delete("s", name, 0, removed); return wait(k, errs) }},
			{"Get space", func() error { _, _, err := k.Get(ctx, space, "k"); return err }},
			{"Get key", func() error { _, _, err := k.Get(ctx, "s", name); return err }},
			{"Scan space", func() error { return k.Scan(ctx, space, "", "", yieldRecord) }},
			{"Scan prefix", func() error { return k.Scan(ctx, "s", name, "", yieldRecord) }},
			{"Scan after", func() error { return k.Scan(ctx, "s", "", name, yieldRecord) }},
			{"Append space", func() error { return k.append(space, "l", "", "o", "", never).Err }},
			{"Append log", func() error { return k.append("s", name, "", "o", "", never).Err }},
			{"Append id", func() error { return k.append("s", "l", name, "o", "", never).Err }},
			{"Append owner", func() error { return k.append("s", "l", "", owner, "", never).Err }},
			{"Read space", func() error { return k.Read(ctx, space, "l", 0, yieldEntry) }},
			{"Read log", func() error { return k.Read(ctx, "s", name, 0, yieldEntry) }},
			{"Span space", func() error { _, _, err := k.Span(ctx, space, "l"); return err }},
			{"Span log", func() error { _, _, err := k.Span(ctx, "s", name); return err }},
			{"Trim space", func() error { k.Trim(space, "l", 1, done); return wait(k, errs) }},
			{"Trim log", func() error { k.Trim("s", name, 1, done); return wait(k, errs) }},
			{"Drop space", func() error { k.Drop(space, "l", done); return wait(k, errs) }},
			{"Drop log", func() error { k.Drop("s", name, done); return wait(k, errs) }},
		} {
			k.wantErr(c.what, c.call(), store.ErrTooLarge)
		}
	}},
	{name: "ValuesUpToTheirLimit", run: func(k *kit) {
		largest := fill(store.MaxValue)
		version := k.mustPut("space", "key", 0, largest, never)
		k.mustAppend("log", "", largest, never, 1)
		if got, value := k.get("space", "key"); got != version || string(value) != largest {
			k.Errorf("Get = version %d, %d octets", got, len(value))
		}
		if entries := k.read("log", 0); len(entries) != 1 || entries[0].data != largest {
			k.Error("the largest entry is not what was appended")
		}
		k.wantErr("Put", k.put("space", "other", 0, "owner", largest+"x", never).Err, store.ErrTooLarge)
		k.wantErr("Append", k.append("space", "log", "", "owner", largest+"x", never).Err, store.ErrTooLarge)
		k.wantSpan("log", 1, 1)
	}},
}

package crash

import "testing"

// Whoever was killed before it had written down what the others have left is passed by:
// its journal does not have all of that.
func TestWhoWasKilledWhileItTookOverIsPassedBy(t *testing.T) {
	dir := t.TempDir()
	journalOf := func(name string) *journal {
		j, err := openJournal(dir, name)
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	first := journalOf("taker-0.0")
	if _, err := takeOver(first, dir, nil); err != nil {
		t.Fatal(err)
	}
	first.begin(entry{What: didBegin, Kind: anArtifact, ID: "x"})
	first.begin(entry{What: didReach, Kind: aSubscription, ID: "taker-0", Seq: 7})
	journalOf("taker-0.1").begin(entry{What: didBegin, Kind: anArtifact, ID: "x", Again: true}) // and then killed
	journalOf("taker-0.2")                                                                      // killed at once
	left, err := takeOver(journalOf("taker-0.3"), dir, forerunners(dir, "taker-0.3"))
	if err != nil || left.last(aSubscription, "taker-0") != 7 || len(left.owed(anArtifact)) != 1 {
		t.Errorf("left is %+v, %v", left, err)
	}
	if left, whole, err := leftBy(dir, "taker-0.3"); err != nil || !whole || left.last(aSubscription, "taker-0") != 7 || len(left.owed(anArtifact)) != 1 {
		t.Errorf("taken over is %+v, %v, %v", left, whole, err)
	}

	owing, err := newPublisher(dir, "publisher-0.0")
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"1", "2"} {
		owing.j.begin(entry{What: didPublish, ID: id, Payload: digest(parcel{id: id}.payload())})
	}
	journalOf("publisher-0.1").begin(entry{What: didOwe, ID: "1", Payload: digest(parcel{id: "1"}.payload())}) // and then killed
	if last, err := newPublisher(dir, "publisher-0.2", forerunners(dir, "publisher-0.2")...); err != nil || len(last.owed) != 2 {
		t.Errorf("owed is %+v, %v", last.owed, err)
	}
}

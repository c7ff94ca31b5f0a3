package client

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Place stores in a file how far the events of a named subscription were handled: a cursor,
// and the number of events handled after it. One goroutine at a time may use it.
//
// The text of its file is JSON that identifies the subscription.
type Place struct {
	file   checkedFile
	cursor uint64
	more   int
	known  bool
}

// PlaceOf identifies the subscription of a Place.
type PlaceOf struct {
	Address string `json:"address"`
	Name    string `json:"name"`
	Filter  string `json:"filter,omitempty"`
	Cert    string `json:"cert,omitempty"` // file with the certificate of this client
}

// placeFormat is the format of the first line. Without a cursor it is all dashes.
const (
	placeFormat = "%020d %06d"
	placeNone   = "-------------------- ------"
)

// OpenPlace opens a Place below a directory, and creates it if necessary. The caller closes
// it.
func OpenPlace(state string, of PlaceOf) (*Place, error) {
	octets, err := json.Marshal(of)
	if err != nil {
		return nil, fmt.Errorf("client: cursor: %w", err)
	}
	dir := filepath.Join(state, "events")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("client: cursor: %w", err)
	}
	sum := sha256.Sum256(octets)
	file, err := os.OpenFile(filepath.Join(dir, hex.EncodeToString(sum[:16])+".cursor"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("client: cursor: %w", err)
	}
	p := &Place{file: checkedFile{file: file}}
	if err := p.read(octets); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func (p *Place) read(of []byte) error {
	octets, err := io.ReadAll(p.file.file)
	if err == nil && len(octets) == 0 {
		_, err = p.file.file.Write(p.file.content(placeNone, of))
		if err == nil {
			return nil
		}
	}
	var line string
	if err == nil {
		line, _, err = p.file.parse(octets, len(placeNone), "to begin without a cursor")
	}
	if err != nil {
		return fmt.Errorf("client: cursor: %w", err)
	}
	if line == placeNone {
		return nil
	}
	if _, err := fmt.Sscanf(line, "%d %d", &p.cursor, &p.more); err != nil {
		return fmt.Errorf("client: cursor: %s: %w", p.file.file.Name(), err)
	}
	p.known = true
	return nil
}

// Cursor returns the cursor and the number of events handled after it. ok is false if there
// is no cursor.
func (p *Place) Cursor() (cursor uint64, more int, ok bool) { return p.cursor, p.more, p.known }

// Move records that everything up to a cursor was handled, and so many events after it.
func (p *Place) Move(cursor uint64, more int) error {
	if p.known && cursor == p.cursor && more == p.more {
		return nil
	}
	if err := p.file.move(fmt.Sprintf(placeFormat, cursor, more)); err != nil {
		return fmt.Errorf("client: cursor: %w", err)
	}
	p.cursor, p.more, p.known = cursor, more, true
	return nil
}

// Close closes the file; its content stays.
func (p *Place) Close() { _ = p.file.file.Close() }

package client

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Place remembers up to where the events of a named subscription were handled,
// in a file. It is used by one goroutine at a time.
//
// The file begins with the cursor, a line of fixed length, which one small write
// moves. The rest says, as JSON, whose it is.
type Place struct {
	file   *os.File
	cursor uint64
	known  bool
}

// PlaceOf says whose a Place is.
type PlaceOf struct {
	Address string `json:"address"`
	Name    string `json:"name"`
	Cert    string `json:"cert,omitempty"` // file with the certificate of this client
}

// cursorFormat is the first line of a Place. Without a cursor it is all dashes.
const (
	cursorFormat = "%020d\n"
	cursorNone   = "--------------------\n"
)

// OpenPlace opens a Place below a directory, and makes it if need be. The caller
// closes it.
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
	p := &Place{file: file}
	if err := p.read(octets); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func (p *Place) read(of []byte) error {
	line := make([]byte, len(cursorNone))
	switch _, err := io.ReadFull(p.file, line); {
	case errors.Is(err, io.EOF):
		if _, err := p.file.Write(append([]byte(cursorNone), append(of, '\n')...)); err != nil {
			return fmt.Errorf("client: cursor: %w", err)
		}
		return nil
	case err != nil:
		return fmt.Errorf("client: cursor: %s: %w", p.file.Name(), err)
	case string(line) == cursorNone:
		return nil
	}
	if _, err := fmt.Sscanf(string(line), cursorFormat, &p.cursor); err != nil {
		return fmt.Errorf("client: cursor: %s: %w", p.file.Name(), err)
	}
	p.known = true
	return nil
}

// Cursor returns the cursor, if there is one.
func (p *Place) Cursor() (cursor uint64, ok bool) { return p.cursor, p.known }

// Move notes that everything up to a cursor was handled.
func (p *Place) Move(cursor uint64) error {
	if p.known && cursor == p.cursor {
		return nil
	}
	if _, err := p.file.WriteAt(fmt.Appendf(nil, cursorFormat, cursor), 0); err != nil {
		return fmt.Errorf("client: cursor: %w", err)
	}
	p.cursor, p.known = cursor, true
	return nil
}

// Close closes the file. What was noted stays.
func (p *Place) Close() { _ = p.file.Close() }

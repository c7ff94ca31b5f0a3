package client

import (
	"fmt"
	"hash/crc32"
	"os"
)

// checkedFile is an open file with a line of fixed length, which one small write replaces, and a text
// behind it that never changes. The line ends with the checksum of both.
type checkedFile struct {
	file *os.File
	rest uint32 // checksum of the text
}

const (
	sumFormat = " %08x\n"
	sumOctets = 1 + 8 + 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// content returns what the file has at first: the line, and the text with a line feed.
func (p *checkedFile) content(line string, text []byte) []byte {
	text = append(text, '\n')
	p.rest = crc32.Checksum(text, castagnoli)
	return append(p.seal(line), text...)
}

// move replaces the line by one of the same length.
func (p *checkedFile) move(line string) error {
	_, err := p.file.WriteAt(p.seal(line), 0)
	return err
}

func (p *checkedFile) seal(line string) []byte {
	return fmt.Appendf([]byte(line), sumFormat, crc32.Update(p.rest, castagnoli, []byte(line)))
}

// parse returns the line of a file, size octets long, and the text. hint says what removing
// the file does if it is damaged.
func (p *checkedFile) parse(octets []byte, size int, hint string) (line string, text []byte, err error) {
	if len(octets) > size+sumOctets {
		line, text = string(octets[:size]), octets[size+sumOctets:]
		p.rest = crc32.Checksum(text, castagnoli)
		if string(p.seal(line)) == string(octets[:size+sumOctets]) {
			return line, text[:len(text)-1], nil
		}
	}
	return "", nil, fmt.Errorf("%s is damaged, or of another release: remove it %s", p.file.Name(), hint)
}

package sqlstore

import "github.com/slimwire/swp/store/internal/checksum"

// sum is checksum.Sum.
func (c *conn) sum(table byte, numbers []int64, value []byte, names ...[]byte) (sum int64) {
	sum, c.scratch = checksum.Sum(c.scratch, table, numbers, value, names...)
	return sum
}

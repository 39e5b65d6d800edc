package boltstore

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
)

// What a page of the file looks like. The library maps the file into memory and trusts what it finds there; a file that
// may have been cut or damaged is therefore read here first, where a page that is not one is an error.
const (
	pageHeader   = 16
	elementSize  = 16
	metaSize     = 64
	bucketHeader = 16
	metaMagic    = 0xED0CDAED
	metaVersion  = 2
	flagBranch   = 0x01
	flagLeaf     = 0x02
	flagBucket   = 0x01
	maxPageSize  = 64 << 10
	maxDepth     = 64
)

// walk reads the pages of a file that belong to its last transaction, each of them once.
type walk struct {
	file *os.File
	meta
	seen []bool // by page
}

type meta struct {
	pageSize          int64
	root, pages, txid uint64
}

func newWalk(file *os.File) (*walk, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	w := &walk{file: file}
	first, err := readMeta(file, 0)
	if err == nil {
		w.meta = first
	}
	for size := int64(1 << 10); size <= maxPageSize; size *= 2 { // the second one stands where the first page ends
		if second, err := readMeta(file, size); err == nil && second.pageSize == size && second.txid >= w.txid {
			w.meta = second
			break
		}
	}
	if w.pageSize == 0 {
		return nil, errors.New("it has no valid head")
	}
	if w.pages > uint64(info.Size()/w.pageSize) {
		return nil, fmt.Errorf("it has %d bytes and must have at least %d", info.Size(), int64(w.pages)*w.pageSize)
	}
	w.seen = make([]bool, w.pages)
	return w, nil
}

func readMeta(file io.ReaderAt, at int64) (m meta, err error) {
	var page [pageHeader + metaSize]byte
	if _, err := file.ReadAt(page[:], at); err != nil {
		return m, err
	}
	body := page[pageHeader:]
	order := binary.NativeEndian
	sum := fnv.New64a()
	_, _ = sum.Write(body[:metaSize-8])
	m = meta{
		pageSize: int64(order.Uint32(body[8:])), root: order.Uint64(body[16:]), pages: order.Uint64(body[40:]), txid: order.Uint64(body[48:]),
	}
	switch {
	case order.Uint32(body) != metaMagic || order.Uint32(body[4:]) != metaVersion || order.Uint64(body[metaSize-8:]) != sum.Sum64():
		return meta{}, errors.New("no valid head")
	case m.pageSize < 1<<10 || m.pageSize > maxPageSize || m.pageSize&(m.pageSize-1) != 0:
		return meta{}, errors.New("a page size that is none")
	case m.root < 2 || m.root >= m.pages:
		return meta{}, errors.New("a root that is not there")
	}
	return m, nil
}

// page reads a page with what it overflows into.
func (w *walk) page(id uint64) ([]byte, error) {
	if id < 2 || id >= w.pages {
		return nil, fmt.Errorf("page %d is not there", id)
	}
	header := make([]byte, pageHeader)
	if _, err := w.file.ReadAt(header, int64(id)*w.pageSize); err != nil {
		return nil, err
	}
	overflow := uint64(binary.NativeEndian.Uint32(header[12:]))
	if binary.NativeEndian.Uint64(header) != id || overflow >= w.pages-id {
		return nil, fmt.Errorf("page %d is not one", id)
	}
	for i := id; i <= id+overflow; i++ {
		if w.seen[i] {
			return nil, fmt.Errorf("page %d is used twice", i)
		}
		w.seen[i] = true
	}
	page := make([]byte, int64(overflow+1)*w.pageSize)
	_, err := w.file.ReadAt(page, int64(id)*w.pageSize)
	return page, err
}

// rows visits the rows of a tree in key order. A row that is itself a bucket comes with nested set.
func (w *walk) rows(root uint64, visit func(key, value []byte, nested bool) error) error {
	var before []byte
	return w.tree(root, 0, func(key, value []byte, nested bool) error {
		if before != nil && bytes.Compare(before, key) >= 0 {
			return fmt.Errorf("the row %q is out of order", key)
		}
		before = bytes.Clone(key)
		return visit(key, value, nested)
	})
}

func (w *walk) tree(id uint64, depth int, visit func(key, value []byte, nested bool) error) error {
	if depth > maxDepth {
		return errors.New("the tree is too deep")
	}
	page, err := w.page(id)
	if err != nil {
		return err
	}
	if binary.NativeEndian.Uint16(page[8:]) == flagLeaf {
		return leaf(page, visit)
	}
	order := binary.NativeEndian
	count := int(order.Uint16(page[10:]))
	if order.Uint16(page[8:]) != flagBranch || count == 0 || pageHeader+count*elementSize > len(page) {
		return fmt.Errorf("page %d is no part of a tree", id)
	}
	keys := make([][]byte, count)
	for i := range count {
		at := pageHeader + i*elementSize
		from := int64(at) + int64(order.Uint32(page[at:]))
		end := from + int64(order.Uint32(page[at+4:]))
		if end > int64(len(page)) {
			return errors.New("a key reaches beyond its page")
		}
		keys[i] = page[from:end]
	}
	for i := range count {
		// A search follows these keys, so what is below a branch must lie between its key and the next.
		between := func(key, value []byte, nested bool) error {
			if bytes.Compare(key, keys[i]) < 0 || i+1 < count && bytes.Compare(key, keys[i+1]) >= 0 {
				return fmt.Errorf("the row %q cannot be found", key)
			}
			return visit(key, value, nested)
		}
		if err := w.tree(order.Uint64(page[pageHeader+i*elementSize+8:]), depth+1, between); err != nil {
			return err
		}
	}
	return nil
}

// leaf visits the rows of one page.
func leaf(page []byte, visit func(key, value []byte, nested bool) error) error {
	order := binary.NativeEndian
	count := int(order.Uint16(page[10:]))
	if pageHeader+count*elementSize > len(page) {
		return errors.New("a page holds fewer rows than it says")
	}
	for i := range count {
		at := pageHeader + i*elementSize
		element := page[at:]
		from := int64(at) + int64(order.Uint32(element[4:]))
		middle := from + int64(order.Uint32(element[8:]))
		end := middle + int64(order.Uint32(element[12:]))
		if end > int64(len(page)) {
			return errors.New("a row reaches beyond its page")
		}
		if err := visit(page[from:middle], page[middle:end], order.Uint32(element)&flagBucket != 0); err != nil {
			return err
		}
	}
	return nil
}

// bucket visits the rows of a bucket, which stands in a row of its own when it is small.
func (w *walk) bucket(value []byte, visit func(key, value []byte, nested bool) error) error {
	if len(value) < bucketHeader {
		return errors.New("a part has no head")
	}
	if root := binary.NativeEndian.Uint64(value); root != 0 {
		return w.rows(root, visit)
	}
	if inline := value[bucketHeader:]; len(inline) >= pageHeader {
		return leaf(inline, visit)
	}
	return errors.New("a part has no page")
}

// top are the names of the buckets of the file.
func (w *walk) top() (map[string]bool, error) {
	names := make(map[string]bool)
	err := w.rows(w.root, func(key, _ []byte, nested bool) error {
		names[string(key)] = nested
		return nil
	})
	clear(w.seen)
	return names, err
}

// checkFormat refuses a file of another program and one of a version this program does not read.
func (w *walk) checkFormat(path string) error {
	var found *format
	err := w.rows(w.root, func(name, value []byte, nested bool) error {
		if !nested || !bytes.Equal(name, bucketMeta) {
			return nil
		}
		return w.bucket(value, func(key, sealed []byte, _ bool) error {
			if !bytes.Equal(key, formatKey) {
				return nil
			}
			value, err := unseal(key, sealed)
			if err != nil {
				return err
			}
			found = new(format)
			return json.Unmarshal(value, found)
		})
	})
	clear(w.seen)
	switch {
	case err != nil:
		return damaged(path, err)
	case found == nil || found.Name != formatName:
		return &FileError{path, "it belongs to another program", "name another file", nil}
	case found.Version > formatVersion:
		return &FileError{path, fmt.Sprintf("it has format %d and this program reads up to %d", found.Version, formatVersion),
			"open it with the newer version of the program that wrote it", nil}
	case found.Version < formatVersion:
		return damaged(path, fmt.Errorf("it says that it has format %d", found.Version))
	}
	return nil
}

// checkRows reads every row of every bucket.
func (w *walk) checkRows() error {
	return w.rows(w.root, w.checkBucket)
}

func (w *walk) checkBucket(name, value []byte, nested bool) error {
	if !nested {
		return fmt.Errorf("the part %q is none", name)
	}
	return w.bucket(value, func(key, value []byte, nested bool) error {
		if nested {
			return w.checkBucket(key, value, nested)
		}
		_, err := unseal(key, value)
		return err
	})
}

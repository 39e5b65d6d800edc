package bundle

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// GenerateKeyFile makes an Ed25519 key and writes it to path as PEM PKCS#8 that only the owner can read (0600). A file
// that is there already is never touched: the error wraps fs.ErrExist. The file appears whole or not at all.
func GenerateKeyFile(path string) (SigningKey, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return SigningKey{}, fmt.Errorf("making a key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return SigningKey{}, fmt.Errorf("making a key: %w", err)
	}
	if err := writeNewFile(path, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})); err != nil {
		return SigningKey{}, err
	}
	key := SigningKey{Private: private}
	key.ID = Thumbprint(key.Public())
	return key, nil
}

// writeNewFile writes a temporary file beside path and gives it its name only once it is complete. Linking, unlike
// renaming, fails where the name is taken.
func writeNewFile(path string, data []byte) (err error) {
	if _, err := os.Lstat(path); err == nil {
		return taken(path)
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	defer os.Remove(tmp.Name())
	defer tmp.Close()
	if err := tmp.Chmod(0o600); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if _, err := tmp.Write(data); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := errors.Join(tmp.Sync(), tmp.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	switch err := os.Link(tmp.Name(), path); {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrExist):
		return taken(path)
	default:
		return createExclusive(path, data)
	}
}

// createExclusive serves file systems without hard links; what it cannot complete it removes again.
func createExclusive(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return taken(path)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		os.Remove(path)
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

func taken(path string) error {
	return fmt.Errorf("%s: %w; a key is never overwritten, so choose another name or move the file away", path, fs.ErrExist)
}

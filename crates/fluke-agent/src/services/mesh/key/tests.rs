use super::*;

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("there").permissions().mode() & 0o777
}

#[test]
fn a_key_is_made_once_and_is_for_its_owner_only() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("mesh.key");
    let made = PrivateKey::load_or_make(&path).expect("made");
    assert_eq!(mode(&path), 0o600);
    let again = PrivateKey::load_or_make(&path).expect("read");
    assert_eq!(made.public(), again.public());
    assert_eq!(std::fs::read_dir(dir.path()).expect("there").count(), 1, "nothing beside");
}

#[test]
fn a_key_that_others_could_read_is_hidden_from_them() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("mesh.key");
    let made = PrivateKey::load_or_make(&path).expect("made");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).expect("ours");
    let again = PrivateKey::load_or_make(&path).expect("read");
    assert_eq!((made.public(), mode(&path)), (again.public(), 0o600));
}

#[test]
fn a_damaged_key_is_put_aside_and_made_anew() {
    for damage in ["", "not base64!", "AAAA", "\u{0}\u{0}"] {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("mesh.key");
        std::fs::write(&path, damage).expect("room");
        let made = PrivateKey::load_or_make(&path).expect("made");
        let again = PrivateKey::load_or_make(&path).expect("read");
        assert_eq!(made.public(), again.public());
        let aside = dir.path().join("mesh.key.corrupt-1");
        assert_eq!(std::fs::read_to_string(aside).expect("there"), damage);
    }
}

#[test]
fn a_private_key_is_never_shown() {
    let key = PrivateKey::new([7; 32]);
    let shown = format!("{key:?} {:?}", super::super::device::Order::Key(&key));
    assert_eq!(shown, "PrivateKey(…) Key(PrivateKey(…))");
}

/// From RFC 7748, section 5.2: the base point, by itself.
#[test]
fn the_public_key_is_the_one_that_others_would_make_of_it() {
    let mut private = [0; 32];
    private[0] = 9;
    let public = PrivateKey::new(private).public().0.map(|byte| format!("{byte:02x}")).concat();
    assert_eq!(public, "422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079");
}

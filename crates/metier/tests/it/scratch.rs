//! Temporary folders of killed programs are removed at the next start; those of living ones stay.

use crate::common::Place;
use metier_linux::KernelRoots;
use metier_linux::group_owner::owner_mark;
use metier_linux::scratch_folder::ScratchFolder;

#[test]
fn the_next_run_removes_folders_of_dead_owners_alone() {
    let place = Place::new();
    let temporary = place.path("temporary");
    std::fs::create_dir(&temporary).unwrap();
    // The name of a folder of this process, and the same with a process that cannot be.
    let own = ScratchFolder::new("bench").unwrap();
    let living = own.path().file_name().unwrap().to_str().unwrap().to_string();
    let mark = owner_mark(&KernelRoots::default());
    let boot = mark.splitn(3, '-').nth(2).unwrap();
    let dead = living.replace(&mark, &format!("999999999-1-{boot}"));
    let foreign = "metier-scratch_of_somebody_else";
    for name in [living.as_str(), dead.as_str(), foreign] {
        std::fs::create_dir(temporary.join(name)).unwrap();
        std::fs::write(temporary.join(name).join("outputs"), "x").unwrap();
    }
    std::os::unix::fs::symlink(place.path("home"), temporary.join(format!("{dead}x"))).unwrap();
    let output =
        place.command(&["run", "--no-store", "--", "true"]).env("TMPDIR", &temporary).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(!temporary.join(&dead).exists(), "a dead owner's folder stays");
    assert!(temporary.join(&living).join("outputs").exists(), "a living owner's folder is gone");
    assert!(temporary.join(foreign).join("outputs").exists(), "a folder of another form is gone");
    assert!(temporary.join(format!("{dead}x")).is_symlink() && place.path("home").exists());
}

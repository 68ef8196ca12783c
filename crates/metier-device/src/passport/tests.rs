use metier_store::{RecordStore, StoreLocation};

use super::*;

fn store(folder: &std::path::Path) -> RecordStore {
    RecordStore::open(&StoreLocation::Sqlite(folder.join("store"))).unwrap()
}

fn id(found: Option<Passport>) -> Option<String> {
    found.map(|passport| passport.id)
}

#[test]
fn boards_are_found_by_what_firmware_and_exporters_call_them() {
    for (name, text) in [
        ("raspberry-pi-4b", "raspberry-pi-4b"),
        ("Raspberry Pi 4B", "raspberry-pi-4b"),
        ("Raspberry Pi 4 Model B Rev 1.4", "raspberry-pi-4b"),
        ("Raspberry Pi 4 Model B", "raspberry-pi-4b"),
        ("Raspberry Pi 4 Model B (8GB)", "raspberry-pi-4b"),
        ("Raspberry Pi 3 Model B Rev 1.2", "raspberry-pi-3b"),
        ("Raspberry Pi 3 Model B Plus Rev 1.3", "raspberry-pi-3b-plus"),
        ("Raspberry Pi 5 Model B Rev 1.0", "raspberry-pi-5"),
        ("NVIDIA Jetson Nano Developer Kit", "jetson-nano"),
        ("NVIDIA Jetson Nano", "jetson-nano"),
        ("jetson nano", "jetson-nano"),
        ("Jetson-AGX", "jetson-agx-xavier"),
        ("NVIDIA Jetson Xavier NX Developer Kit", "jetson-xavier-nx"),
        ("NVIDIA Orin Nano Developer Kit", "jetson-orin-nano"),
        ("NVIDIA Jetson Orin Nano Engineering Reference Developer Kit Super", "jetson-orin-nano-super"),
        ("NVIDIA Jetson AGX Orin", "jetson-agx-orin"),
        ("Intel(R) N100", "mini-pc-n100"),
    ] {
        assert_eq!(id(find_passport(None, name)).as_deref(), Some(text), "{name}");
    }
    for name in
        ["", "...", "Raspberry", "Jetson", "Raspberry Pi 40", "localhost", "Raspberry Pi 2 Model B Rev 1.1"]
    {
        assert_eq!(id(find_passport(None, name)), None, "{name:?}");
    }
}

#[test]
fn a_stored_passport_comes_before_a_shipped_one_and_a_measured_one_before_both() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let mut specified = find_passport(None, "raspberry-pi-4b").unwrap();
    specified.id = "lab-specified".into();
    store.put_passport(&specified).unwrap();
    assert_eq!(
        id(find_passport(Some(&store), "Raspberry Pi 4 Model B Rev 1.4")).as_deref(),
        Some("lab-specified")
    );
    assert_eq!(id(find_passport(Some(&store), "raspberry pi 4 model b")).as_deref(), Some("lab-specified"));
    let mut measured = specified.clone();
    measured.id = "device-7".into();
    measured.origin = PassportOrigin::Measured;
    measured.made = "2020-01-01T00:00:00Z".parse().unwrap();
    store.put_passport(&measured).unwrap();
    assert_eq!(id(find_passport(Some(&store), "raspberry pi 4 model b")).as_deref(), Some("device-7"));
    assert_eq!(
        id(find_passport(Some(&store), "lab-specified")).as_deref(),
        Some("lab-specified"),
        "an id is an id"
    );
    let ids: Vec<String> = list_passports(Some(&store)).into_iter().map(|passport| passport.id).collect();
    assert_eq!(ids[..3], ["device-7", "lab-specified", "raspberry-pi-3b"]);
    assert_eq!(ids.len(), shipped_passports().len() + 2);
}

#[test]
fn a_shipped_passport_that_is_stored_too_is_listed_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    store.put_passport(&shipped_passports()[3]).unwrap();
    let all = list_passports(Some(&store));
    assert_eq!(all.len(), shipped_passports().len());
    assert_eq!(all[0].id, shipped_passports()[3].id);
}

#[test]
fn a_device_is_judged_by_its_own_passport_then_by_its_product_then_by_its_processor() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let mut device = shipped_passports()[0].device.clone();
    device.id = "device-9".parse().unwrap();
    device.product = Some("Raspberry Pi 5 Model B Rev 1.0".into());
    device.cpu.model = Some("Intel(R) N100".into());
    assert_eq!(id(find_for_device(Some(&store), &device)).as_deref(), Some("raspberry-pi-5"));
    device.product = Some("QEMU Standard PC".into());
    assert_eq!(id(find_for_device(Some(&store), &device)).as_deref(), Some("mini-pc-n100"));
    store.put_passport(&Passport::without_figures(device.clone(), PassportOrigin::Measured)).unwrap();
    assert_eq!(id(find_for_device(Some(&store), &device)).as_deref(), Some("device-9"));
    device.cpu.model = None;
    device.product = None;
    assert_eq!(find_for_device(None, &device), None);
}
